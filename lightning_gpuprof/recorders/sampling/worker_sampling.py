"""A thread in a worker process that samples its main thread for a while."""

import sys
import threading
from collections import Counter
from functools import partial
from multiprocessing.util import Finalize

from lightning_gpuprof.recorders.sampling.pacing import keep_sampling, may_walk
from lightning_gpuprof.recorders.sampling.stack_lines import At
from lightning_gpuprof.recorders.sampling.worker_counts import (
    PlaceCount,
    WorkerCounts,
    write_counts,
)
from lightning_gpuprof.recorders.sampling.worker_stack import Doing, where_in_worker
from lightning_gpuprof.session.guard import attempt

THREAD = "gpuprof-worker"
WRITE_EVERY = 10
"""Samples between two writes, lost where a worker is ended in between."""
IDLE = 4
"""Samples of nothing that count as one, so that they end as well."""
LEAST_WAITING = 50
"""Samples after which a worker that only ever waits counts: its batches are too short to be met."""
END_S = 0.2
"""A worker that ends waits at most so long for the thread's last write."""
_FIRST = 100
"""Before finalizers of lower priority, as the queues' are: the thread is to be gone by then."""


class WorkerSampling:
    """Samples of the main thread of this process, which is a worker's.

    Args:
        folder: Where they are written to; once it is gone, so is the thread.
        name: Of the file.
        worker: The worker's number.
        watched: `ident` of the main thread.
        start_ns: See `WorkerCounts`.
        init_ns: See `WorkerCounts`.
    """

    def __init__(
        self,
        folder: str,
        name: str,
        *,
        worker: int,
        watched: int,
        start_ns: int | None = None,
        init_ns: int | None = None,
    ) -> None:
        self._folder, self._name, self._worker, self._watched = folder, name, worker, watched
        self._start_ns, self._init_ns = start_ns, init_ns
        self._seen: Counter[At] = Counter()
        self._doing: Counter[Doing] = Counter()
        self._idle = self._waiting = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, *, interval_s: float, most: int) -> None:
        """Start the thread; it ends with its samples, with the process or at a first failure."""
        watch = partial(self.watch, self._stop, interval_s=interval_s, most=most)
        self._thread = threading.Thread(
            target=attempt, args=(watch, None), name=THREAD, daemon=True
        )
        self._thread.start()
        Finalize(None, attempt, args=(self.end, None), exitpriority=_FIRST)

    def end(self) -> None:
        """End the thread, which writes what it has; called as the worker ends."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(END_S)

    def watch(self, stop: threading.Event, *, interval_s: float, most: int) -> None:
        """Sample until there are `most`, and write them again and again."""
        self.write()  # how long the start took, however soon the worker ends
        try:
            keep_sampling(self.sample, self.count, stop, interval_s=interval_s, most=most)
        finally:
            self.write()

    def count(self) -> int:
        """Return how many samples there are; `IDLE` samples of nothing count as one."""
        return self._doing.total() + self._idle // IDLE

    def sample(self, late: bool = False) -> None:
        """Take one sample of the main thread, where it is in the worker's loop."""
        if not may_walk():
            return
        frames = sys._current_frames()
        try:
            seen = where_in_worker(frames.get(self._watched))
        finally:
            frames.clear()  # see `LineSampler.sample`
        if seen is None or (seen.doing is not Doing.WORK and not self._seen):
            self._idle += 1  # before the first batch the other workers are started
            self._waiting += seen is not None and seen.doing is Doing.WAIT
            if self._waiting >= LEAST_WAITING and self._waiting % WRITE_EVERY == 0:
                self.write()
            return
        if seen.at is not None:
            self._seen[seen.at] += 1
        self._doing[seen.doing] += 1
        if self._doing.total() % WRITE_EVERY == 0:
            self.write()

    def write(self) -> None:
        """Write the samples so far."""
        places = tuple(
            PlaceCount(at.file, at.line, at.function, at.callee, at.kind, count)
            for at, count in self._seen.most_common()
        )
        waiting = self._doing[Doing.WAIT]
        if not self._seen and self._waiting >= LEAST_WAITING:
            waiting = self._waiting
        counts = WorkerCounts(
            worker=self._worker,
            waiting=waiting,
            handing=self._doing[Doing.HANDOVER],
            seen=places,
            start_ns=self._start_ns,
            init_ns=self._init_ns,
        )
        write_counts(self._folder, self._name, counts)
