"""Decides when another thread's stack is sampled, and when it must not be read."""

import ctypes
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from lightning_gpuprof.recorders.cores import core_wait
from lightning_gpuprof.records.facts import CoreWait

DENSE_SAMPLES, SPARSE_FACTOR = 100, 4
"""The first samples are one interval apart on average. They are enough to find the slow lines.
Later samples make the shares of these lines more exact; they are this factor further apart, since
every sample holds the other thread up."""
EARLY_S = 0.006
"""The switch interval is short for this long before a sample, because Python may let the sampling
thread wait up to 5 ms for its turn."""
SHORT_INTERVAL_S = 5e-6
_SET_TIMERSLACK = 29
"""From linux/prctl.h: sets by how many ns a thread may be woken too late."""
LONG_CORE_WAIT_NS = 1_000_000
"""If the sampling thread waits longer than this for a core, the other thread may have gone on to
another line in the meantime."""
_COLLECTS_DURING_WALK = sys.version_info[:2] == (3, 11)
_WALK_OBJECTS = 300
"""More objects than a walk over the frames of all threads creates."""
_SWITCH_LOCK = threading.Lock()
_SWITCH_INTERVALS_S: list[float] = []
"""What each sampler that is in `short_switch_interval` has found; the first is the program's."""
T = TypeVar("T")


def _restore_after_fork() -> None:
    """Give a forked worker the program's interval, and a lock that no lost thread holds."""
    global _SWITCH_LOCK
    _SWITCH_LOCK = threading.Lock()
    if _SWITCH_INTERVALS_S:
        sys.setswitchinterval(_SWITCH_INTERVALS_S[0])
        _SWITCH_INTERVALS_S.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_after_fork)


@dataclass(frozen=True)
class SampleTiming:
    """When a sample was taken.

    Args:
        late_ns: How long after the planned time.
        weight: For how many planned samples it stands: all whose time passed before the sampling
            thread had its turn.
        waited_for_core: Whether the sampling thread had to wait for a core, so that the other
            thread may have gone on.
    """

    late_ns: int = 0
    weight: int = 1
    waited_for_core: bool = False


def sample_repeatedly(
    take: Callable[[], T | None],
    add: Callable[[T, SampleTiming], object],
    count: Callable[[], int],
    stop: threading.Event,
    *,
    interval_s: float,
    max_samples: int,
    growth: float = 0.0,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Sample at irregular intervals until there are `max_samples`, or until `stop` is set.

    The intervals come from a random generator of their own. The times of samples are planned ahead:
    if they were counted from the last turn of this thread, samples would follow calls that release
    the interpreter's lock.

    Args:
        take: Returns a sample, or None if none can be taken.
        add: Receives every sample.
        count: Returns the number of samples so far.
        stop: Ends the sampling.
        interval_s: The mean interval of the first samples.
        max_samples: The number of samples.
        growth: The mean interval is at least this share of the time since the call.
        clock: Returns nanoseconds; tests pass a fake.
        sleep: Sleeps for seconds; tests pass a fake.
    """
    generator = random.Random(0)
    begun_ns = due_ns = clock()
    while (sample_count := count()) < max_samples:
        mean_s = interval_s if sample_count < DENSE_SAMPLES else SPARSE_FACTOR * interval_s
        mean_s = max(mean_s, growth * (due_ns - begun_ns) / 1e9)
        due_ns += round(mean_s * (0.5 + generator.random()) * 1e9)
        if stop.wait(max(0.0, (due_ns - clock()) / 1e9 - EARLY_S)):
            return
        core_wait_before = core_wait()
        with short_switch_interval():
            sleep(max(0.0, (due_ns - clock()) / 1e9))
        late_ns = max(0, clock() - due_ns)
        sample = take()
        weight = 1 + round(late_ns // (mean_s * 1e9))
        due_ns += round((weight - 1) * mean_s * 1e9)
        if sample is not None:
            waited_for_core = _core_wait_since(core_wait_before) > LONG_CORE_WAIT_NS
            add(sample, SampleTiming(late_ns, weight, waited_for_core))


def wake_on_time() -> None:
    """Let Linux wake the current thread at the requested time, and not up to 50 us later.

    After 50 us the other thread has often released the interpreter's lock by itself.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_TIMERSLACK, 1)


def _core_wait_since(before: CoreWait | None) -> int:
    """Return how long this thread has waited for a core since an earlier reading, in ns."""
    now = core_wait()
    return 0 if now is None or before is None else now.since(before).queued_ns


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Let a thread that asks for the interpreter's lock have it within `SHORT_INTERVAL_S`.

    By default Python grants the lock after 5 ms, or earlier if the other thread releases it. Nearly
    every sample would then show a call that releases the lock, and hardly any the Python code
    before it. The setting belongs to the whole process. It is restored before the sample is taken,
    since the other thread could otherwise get the lock back during the sample. If several samplers
    overlap, the last of them restores what the first has found.
    """
    with _SWITCH_LOCK:
        _SWITCH_INTERVALS_S.append(sys.getswitchinterval())
        sys.setswitchinterval(min(_SWITCH_INTERVALS_S[0], SHORT_INTERVAL_S))
    try:
        yield
    finally:
        with _SWITCH_LOCK:
            interval_s = _SWITCH_INTERVALS_S[0]
            _SWITCH_INTERVALS_S.pop()
            if not _SWITCH_INTERVALS_S:
                sys.setswitchinterval(interval_s)


def read_stack(thread: int, read: Callable[[FrameType | None], T | None]) -> T | None:
    """Return what `read` returns for the innermost frame of a thread.

    None if frames may not be walked now, or if the other thread went on during the walk, which
    Python allows after 5 ms.
    """
    if not may_walk_frames():
        return None
    frames = sys._current_frames()
    try:
        frame = frames.get(thread)
        offset = frame and frame.f_lasti
        result = read(frame)
        went_on = frame is not None and frame.f_lasti != offset and thread != threading.get_ident()
        return None if went_on else result
    finally:
        # The dict contains the frame of this function, which is a reference cycle. Until a garbage
        # collection it would keep the local variables of all threads alive, such as the iterator of
        # a loader with its workers.
        frames.clear()


def may_walk_frames() -> bool:
    """Return whether the frames of another thread can be walked now.

    This matters on Python 3.11. There a walk may start a garbage collection, and a finalizer in it
    may release the interpreter's lock. If the other thread then returns from a frame, the walk goes
    on in freed memory. Therefore a young collection that is near is made before the walk.
    """
    if not _COLLECTS_DURING_WALK or not gc.isenabled():
        return True
    if _collection_is_near():
        gc.collect(0)
    # If that did nothing, the other thread is in a collection, and no second one begins before its
    # end.
    return not _collection_is_near() or gc.get_threshold()[0] > _WALK_OBJECTS


def _collection_is_near() -> bool:
    return 0 < gc.get_threshold()[0] <= gc.get_count()[0] + _WALK_OBJECTS
