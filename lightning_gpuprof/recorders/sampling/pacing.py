"""When another thread is sampled, and when no sample may be taken."""

import ctypes
import gc
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

DENSE, SPARSER = 100, 4
"""The first samples, enough to name a line, come one `interval_s` apart; the rest, which make its
share more exact, come so many times further apart, as each of them holds the other thread up."""
EARLY_S = 0.006
"""Turns are quick for so long before a sample: Python lets this thread run within 5 ms."""
QUICK_S = 5e-6
_SET_TIMERSLACK = 29
"""Of linux/prctl.h: by how many ns a thread may be woken late."""
CROWDED_NS = 1_000_000
"""A wait for a core in which the other thread may have gone from one line to another."""
_COLLECTS_IN_A_WALK = sys.version_info[:2] == (3, 11)
_WALK_OBJECTS = 300
"""More than a walk over all threads' frames makes."""
T = TypeVar("T")


@dataclass(frozen=True)
class When:
    """When a sample was taken.

    Args:
        after_ns: How long after its time.
        times: How many times it stands for: all that passed until the thread had its turn.
        crowded: Whether this thread waited for a core meanwhile, and the other one went on.
    """

    after_ns: int = 0
    times: int = 1
    crowded: bool = False


def keep_sampling(
    look: Callable[[], T | None],
    note: Callable[[T, When], object],
    count: Callable[[], int],
    stop: threading.Event,
    *,
    interval_s: float,
    most: int,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Sample at irregular distances until there are `most` samples, or it is told to stop.

    The distances come from a generator of their own, and the times are set ahead: counted from
    where this thread had its turn, they would follow calls that let go of the interpreter's lock.
    """
    chance, due_ns = random.Random(0), clock()
    while (taken := count()) < most:
        mean_s = interval_s if taken < DENSE else SPARSER * interval_s
        due_ns += round(mean_s * (0.5 + chance.random()) * 1e9)
        if stop.wait(max(0.0, (due_ns - clock()) / 1e9 - EARLY_S)):
            return
        before = core_wait()
        with quick_turns():
            sleep(max(0.0, (due_ns - clock()) / 1e9))
        after_ns, seen = max(0, clock() - due_ns), look()
        times = 1 + round(after_ns // (mean_s * 1e9))
        due_ns += round((times - 1) * mean_s * 1e9)
        if seen is not None:
            note(seen, When(after_ns, times, _waited_ns(before) > CROWDED_NS))


def wake_on_time() -> None:
    """Have Linux wake this thread when it asked to be woken, not up to 50 us later.

    As late as that, the other thread has often let go of the interpreter's lock by itself.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_TIMERSLACK, 1)


def _waited_ns(before: CoreWait | None) -> int:
    """Return how long this thread has waited for a core since."""
    now = core_wait()
    return 0 if now is None or before is None else now.since(before).queued_ns


@contextmanager
def quick_turns() -> Iterator[None]:
    """Let a thread that asks for the interpreter's lock have it within `QUICK_S`.

    Python grants it after 5 ms, or when the other thread lets go: nearly every sample would show a
    call that lets go, hardly ever the Python before it. The setting is the process's. It is put
    back before the other thread asks for the lock: else that would have it again amid the sample.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, QUICK_S))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def look_at(thread: int, where: Callable[[FrameType | None], T | None]) -> T | None:
    """Return what a thread's innermost frame says; None where frames may not be walked.

    None too where another thread went on meanwhile: after 5 ms Python lets it, amid the walk.
    """
    if not may_walk():
        return None
    frames = sys._current_frames()
    try:
        frame = frames.get(thread)
        at = frame and frame.f_lasti
        found = where(frame)
        went_on = frame is not None and frame.f_lasti != at and thread != threading.get_ident()
        return None if went_on else found
    finally:
        # This function's own frame is in it: a circle that would keep all threads' local
        # variables, such as a loader's iterator with its workers, for the collector.
        frames.clear()


def may_walk() -> bool:
    """Tell whether another thread's frames can be walked now; on Python 3.11, not always.

    There, walking may start a collection, what that finalizes can let go of the interpreter's lock,
    the other thread returns from the frame, and the walk goes on in freed memory. So a young
    collection that is near is made before the walk.
    """
    if not _COLLECTS_IN_A_WALK or not gc.isenabled():
        return True
    if _collection_is_near():
        gc.collect(0)
    # Where that did nothing, the other thread is amid a collection: no other begins before its end.
    return not _collection_is_near() or gc.get_threshold()[0] > _WALK_OBJECTS


def _collection_is_near() -> bool:
    return 0 < gc.get_threshold()[0] <= gc.get_count()[0] + _WALK_OBJECTS
