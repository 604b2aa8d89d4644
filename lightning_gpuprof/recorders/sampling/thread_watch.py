"""The other Python threads of the process, while the training thread is sampled."""

import linecache
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import NamedTuple

from lightning_gpuprof.recorders.sampling.stack_lines import own_line
from lightning_gpuprof.records.lines import ThreadLoad, ThreadUse
from lightning_gpuprof.session.places import shown_path

_FILE = "/proc/self/task/{}/schedstat"
OWN = "gpuprof"
"""How the names of this package's own threads begin."""


class ThreadTime(NamedTuple):
    """Times of one thread since it began: on a core, and ready but waiting for one."""

    name: str
    cpu_ns: int
    queued_ns: int


def thread_times() -> dict[int, ThreadTime]:
    """Return the times of all Python threads by their `ident`; empty where the system has none.

    A file per thread is read, some 10 us; nothing is asked of the threads.

    >>> found = thread_times()
    >>> not found or found[threading.get_ident()].cpu_ns >= 0
    True
    """
    found = {}
    for thread in threading.enumerate():
        if thread.ident is None or thread.native_id is None:
            continue
        try:
            with open(_FILE.format(thread.native_id), encoding="ascii") as file:
                cpu_ns, queued_ns, *_ = map(int, file.read().split())
        except (OSError, ValueError):  # it has ended since, or the kernel keeps no such account
            continue
        found[thread.ident] = ThreadTime(thread.name, cpu_ns, queued_ns)
    return found


class ThreadWatch:
    """Compares all threads' times between the first sample and the last.

    Args:
        times: Reads the threads' times; tests pass a fake.
        clock: Returns nanoseconds.
    """

    def __init__(
        self,
        times: Callable[[], dict[int, ThreadTime]] = thread_times,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._times, self._clock = times, clock
        self._lines: dict[int, Counter[tuple[str, int, str]]] = {}
        self._begun: dict[int, ThreadTime] | None = None
        self._ended: dict[int, ThreadTime] = {}
        self._begun_ns = self._ended_ns = 0
        self._over = False

    def saw(self, frames: Mapping[int, FrameType], watched: int) -> None:
        """Note where the other threads are, at a sample."""
        if self._begun is None:
            self._begun, self._begun_ns = self._times(), self._clock()
        for ident, frame in frames.items():
            if ident not in (watched, threading.get_ident()):
                line = own_line(frame)
                if line is not None:
                    self._lines.setdefault(ident, Counter())[line] += 1

    def end(self) -> None:
        """Read the times for the last time."""
        self._read()
        self._over = True

    def _read(self) -> None:
        if not self._over:
            self._ended, self._ended_ns = self._times(), self._clock()

    def use(self, watched: int, *, most: int = 3) -> ThreadUse | None:
        """Return what was found so far; None where times were not to be had."""
        self._read()
        begun = self._begun
        if begun is None or watched not in begun or watched not in self._ended:
            return None
        taken = {ident: _since(begun.get(ident), now) for ident, now in self._ended.items()}
        trains = taken.pop(watched)
        others = [
            ThreadLoad(one.name, one.cpu_ns, *self._place(ident))
            for ident, one in taken.items()
            if not one.name.startswith(OWN)
        ]
        others.sort(key=lambda one: -one.cpu_ns)
        watched_ns = self._ended_ns - self._begun_ns
        return ThreadUse(watched_ns, trains.cpu_ns, trains.queued_ns, tuple(others[:most]))

    def _place(self, ident: int) -> tuple[str, int, str, str]:
        seen = self._lines.get(ident)
        if not seen:
            return "", 0, "", ""
        ((file, line, function), _) = seen.most_common(1)[0]
        return shown_path(file), line, function, linecache.getline(file, line).strip()


def _since(begun: ThreadTime | None, now: ThreadTime) -> ThreadTime:
    if begun is None:
        return now
    return ThreadTime(now.name, now.cpu_ns - begun.cpu_ns, now.queued_ns - begun.queued_ns)
