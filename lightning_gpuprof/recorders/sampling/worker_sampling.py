"""Runs in a loader's worker process: a thread that samples its main thread for a while."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.util import Finalize
from types import FrameType
from typing import Any

from msgspec import json

from lightning_gpuprof.adapters.frames import WORKER_GETS_INDICES, WORKER_LOOP, WORKER_MAKES_BATCH
from lightning_gpuprof.recorders.sampling import stack_lines, storage_waits
from lightning_gpuprof.recorders.sampling.pacing import When, keep_sampling, look_at, wake_on_time
from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.records.lines import Reads, WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.places import USER, package_in

THREAD = "gpuprof-worker"
WORKERS = 2
"""Only the first workers of a loader are sampled: all of them do the same."""
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
WORK, WAITING, HANDING = "work", "waiting", "handing"
"""Fields of `WorkerLines`: it waits for indices where the training process has all its batches;
whatever else its loop does is handing a batch over."""
Seen = tuple[str, stack_lines.At | None]
"""A sample of a worker: what it does and, where it works, its place."""


@dataclass
class WorkerStart:
    """Stands in for a loader's `worker_init_fn` while its worker processes are started.

    Calls the user's, if any, and then begins to sample the worker. It is sent to each worker, so it
    holds little, and nothing of the training process.

    Args:
        asked_ns: When the loader was asked for an iterator, by `time.perf_counter_ns`, which all
            processes of a machine share.
    """

    inner: Callable[[int], Any] | None
    folder: str
    name: str
    interval_s: float
    most: int
    asked_ns: int

    def __call__(self, worker_id: int) -> None:
        """Do the user's part, whatever it raises; ours cannot fail."""
        begun_ns = time.perf_counter_ns()
        if self.inner is not None:
            self.inner(worker_id)
        if worker_id < WORKERS:
            attempt(partial(self._begin, worker_id, begun_ns), None)

    def _begin(self, worker_id: int, begun_ns: int) -> None:
        init_ns = None if self.inner is None else time.perf_counter_ns() - begun_ns
        # The first worker is started first: others wait for those before them.
        start_ns = max(0, begun_ns - self.asked_ns) if worker_id == 0 else None
        path = os.path.join(self.folder, f"{self.name}-{worker_id}.json")
        found = WorkerSampling(path, threading.get_ident(), start_ns=start_ns, init_ns=init_ns)
        found.begin(interval_s=self.interval_s, most=self.most)


@dataclass
class WorkerSampling:
    """Samples of the main thread of this process, which is a worker's."""

    path: str
    watched: int
    start_ns: int | None = None
    init_ns: int | None = None
    _seen: Counter[stack_lines.At] = field(default_factory=Counter)
    _doubts: Counter[stack_lines.At] = field(default_factory=Counter)
    _doing: Counter[str] = field(default_factory=Counter)
    _idle: int = 0
    _waiting: int = 0
    _blocked: Counter[str] = field(default_factory=Counter)
    _before: Reads | None = None
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()

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
            wake_on_time()
            keep_sampling(self.look, self.note, self.count, stop, interval_s=interval_s, most=most)
        finally:
            self.write()

    def count(self) -> int:
        """Return how many samples there are; `IDLE` samples of nothing count as one."""
        return self._doing.total() + self._idle // IDLE

    def look(self) -> tuple[Seen, str | None] | None:
        """Return what the main thread does, empty outside the loop, and the file it waits for."""
        seen = look_at(self.watched, lambda frame: where_in_worker(frame) or ("", None))
        # Its main thread has the process's number.
        return None if seen is None else (seen, storage_waits.waits_for_storage(os.getpid()))

    def note(self, found: tuple[Seen, str | None], when: When) -> None:
        """Count a sample of the main thread."""
        (doing, at), path = found
        if not doing or (doing != WORK and not self._seen):
            self._idle += 1  # before the first batch the other workers are started
            self._waiting += doing == WAITING
            if self._waiting >= LEAST_WAITING and self._waiting % WRITE_EVERY == 0:
                self.write()
            return
        if not self._doing:
            self._before = storage_waits.reads_so_far(os.getpid())
        if at is not None:
            at, doubted = stack_lines.settled(at, when, self._seen.total())
            self._seen[at] += when.times
            self._doubts[at] += when.times * doubted
        if doing == WORK and path is not None:
            self._blocked[storage_waits.filesystem_of(path)] += when.times
        before, self._doing[doing] = self._doing.total(), self._doing[doing] + when.times
        if before // WRITE_EVERY < self._doing.total() // WRITE_EVERY:
            self.write()

    def write(self) -> None:
        """Write the samples so far, in the place of those written before."""
        idle = not self._seen and self._waiting >= LEAST_WAITING
        found = WorkerLines(
            processes=1,
            work=self._doing[WORK],
            waiting=self._waiting if idle else self._doing[WAITING],
            handing=self._doing[HANDING],
            lines=stack_lines.line_counts(self._seen, self._doubts),
            start_ns=self.start_ns,
            init_ns=self.init_ns,
            **storage_waits.waits_seen(self._blocked, os.getpid(), self._before),
        )
        with written_whole(self.path) as path, open(path, "wb") as file:
            file.write(json.encode(found))


def where_in_worker(frame: FrameType | None) -> Seen | None:
    """Return what a worker's main thread does, given its innermost frame; None outside its loop."""
    inside: list[FrameType] = []
    for each in stack_lines.outwards(frame):
        if each.f_code.co_name == WORKER_LOOP and package_in(each) != USER:
            return _seen(inside, each, frame)
        inside.append(each)
    return None


def _seen(inside: list[FrameType], loop: FrameType, frame: FrameType | None) -> Seen:
    """Classify the frames inside of a worker's loop, innermost first."""
    called = inside[-1].f_code.co_name if inside else ""
    if called == WORKER_GETS_INDICES:
        return WAITING, None
    if called != WORKER_MAKES_BATCH:
        return HANDING, None
    work = inside[:-1]
    packages = [package_in(each) for each in work]
    if USER not in packages:
        return WORK, stack_lines.in_package(Phase.DATA_WAIT, work, loop)
    own = packages.index(USER)
    return WORK, stack_lines.in_users(Phase.DATA_WAIT, work[own], work[:own], frame)
