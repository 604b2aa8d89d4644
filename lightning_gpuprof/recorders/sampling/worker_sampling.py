"""Runs in a DataLoader's worker process: a thread that samples the worker's main thread."""

import math
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

from msgspec import Struct, json

from lightning_gpuprof.adapters.frames import WORKER_GETS_INDICES, WORKER_LOOP, WORKER_MAKES_BATCH
from lightning_gpuprof.recorders.cores import cpu_time
from lightning_gpuprof.recorders.sampling import stack_lines, storage_waits
from lightning_gpuprof.recorders.sampling.pacing import (
    SampleTiming,
    read_stack,
    sample_repeatedly,
    wake_on_time,
)
from lightning_gpuprof.recorders.sampling.stack_lines import ThreadPlace
from lightning_gpuprof.records.files import file_state, written_whole
from lightning_gpuprof.records.lines import CpuTime, Reads, WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.places import USER, package_in

THREAD = "gpuprof-worker"
WORKERS = 2
"""Only the first workers of a loader are sampled, since all of them do the same."""
WRITE_EVERY = 10
"""The samples are written each time that this many are new. Newer ones are lost if the worker is
killed."""
AGAIN_PER_S = 10
"""Samples per second at most when sampling again: as at the beginning, 200 in twenty seconds."""
IDLE_WEIGHT = 4
"""This many samples outside the worker's work count as a single sample, so that the sampling
ends."""
MIN_WAITING = 50
"""A worker that only ever waits is recorded after this many samples. It makes its batches in so
little time that no sample falls into it."""
END_S = 0.2
"""A worker that ends waits at most so long until the thread has written its samples."""
AGAIN_NAME, LOOK_S = "again", 1.0
"""The file in the folder of the samples by which the training process asks for more samples, and
how often a worker looks whether there is a new one."""
_EXIT_PRIORITY = 100
"""The thread ends before finalizers of lower priority run, such as those of queues."""
WORK, WAITING, HANDING = "work", "waiting", "handing"
"""What a worker does, as in the fields of `WorkerLines`: it makes a batch; it waits for indices,
since the training process has all its batches; or, with whatever else its loop does, it hands a
batch over."""


class SampleAgain(Struct, frozen=True):
    """Asks workers to sample again, for the capture of a number and for some seconds."""

    capture: int
    seconds: float

    @property
    def suffix(self) -> str:
        """What is appended to the names of the files with these samples."""
        return f".capture{self.capture}"


WorkerActivity = tuple[str, ThreadPlace | None]
"""What a worker does and, if it makes a batch, its place."""


@dataclass
class WorkerStart:
    """Takes the place of a loader's `worker_init_fn` while its worker processes are started.

    Calls the user's function, if there is one, and then begins to sample the worker. Since it is
    sent to every worker, it holds little, and nothing of the training process.

    Args:
        inner: The user's `worker_init_fn`.
        folder: The folder for the samples.
        name: The beginning of the names of files.
        interval_s: The mean interval of the first samples.
        max_samples: Samples per worker.
        asked_ns: When the loader was asked for an iterator, by `time.perf_counter_ns`, which all
            processes of a machine share.
        stays: Whether the thread then looks for the file `AGAIN_NAME`, and samples again.
    """

    inner: Callable[[int], Any] | None
    folder: str
    name: str
    interval_s: float
    max_samples: int
    asked_ns: int
    stays: bool = False

    def __call__(self, worker_id: int) -> None:
        """Call the user's function, which may raise, and begin to sample, which cannot fail."""
        begun_ns = time.perf_counter_ns()
        if self.inner is not None:
            self.inner(worker_id)
        if worker_id < WORKERS:
            attempt(partial(self._begin, worker_id, begun_ns), None)

    def _begin(self, worker_id: int, begun_ns: int) -> None:
        init_ns = None if self.inner is None else time.perf_counter_ns() - begun_ns
        # Workers are started one after the other, so only the first shows how long a start takes.
        start_ns = max(0, begun_ns - self.asked_ns) if worker_id == 0 else None
        path = os.path.join(self.folder, f"{self.name}-{worker_id}.json")
        sampling = WorkerSampling(path, threading.get_ident(), start_ns=start_ns, init_ns=init_ns)
        sampling.begin(interval_s=self.interval_s, max_samples=self.max_samples, stays=self.stays)


@dataclass
class WorkerSampling:
    """The samples of the main thread of this worker process."""

    path: str
    watched_thread: int
    start_ns: int | None = None
    init_ns: int | None = None
    _places: Counter[ThreadPlace] = field(default_factory=Counter)
    _doubts: Counter[ThreadPlace] = field(default_factory=Counter)
    _activities: Counter[str] = field(default_factory=Counter)
    _idle: int = 0
    _waiting: int = 0
    """How many of the idle samples waited for indices."""
    _blocked: Counter[str] = field(default_factory=Counter)
    """Samples that waited for storage, by file system."""
    _reads_before: Reads | None = None
    _cpu_before: CpuTime | None = None
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()

    def begin(self, *, interval_s: float, max_samples: int, stays: bool = False) -> None:
        """Start the thread. It ends with its last sample, with the process, or with an error.

        With `stays` it does not end with its last sample, but samples again if asked to.
        """
        body = self.run_and_stay if stays else self.run
        run = partial(body, self._stop, interval_s=interval_s, max_samples=max_samples)
        self._thread = threading.Thread(target=attempt, args=(run, None), name=THREAD, daemon=True)
        self._thread.start()
        Finalize(None, attempt, args=(self.end, None), exitpriority=_EXIT_PRIORITY)

    def end(self) -> None:
        """End the thread, which writes its samples. Called when the worker ends."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(END_S)

    def run_and_stay(self, stop: threading.Event, *, interval_s: float, max_samples: int) -> None:
        """Sample, and then sample again whenever the training process asks for it."""
        folder = os.path.dirname(self.path)
        served = file_state(os.path.join(folder, AGAIN_NAME))  # made before this worker started
        if max_samples:
            self.run(stop, interval_s=interval_s, max_samples=max_samples)
        while not stop.wait(LOOK_S):
            state = file_state(os.path.join(folder, AGAIN_NAME))
            if state in (None, served):
                continue
            served = state
            with open(os.path.join(folder, AGAIN_NAME), "rb") as file:
                again = json.decode(file.read(), type=SampleAgain)
            most, seconds = max(1, round(AGAIN_PER_S * again.seconds)), again.seconds
            sampling = WorkerSampling(self.path + again.suffix, self.watched_thread)
            sampling.run(stop, interval_s=interval_s, max_samples=most, seconds=seconds)

    def run(
        self,
        stop: threading.Event,
        *,
        interval_s: float,
        max_samples: int,
        seconds: float = math.inf,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Sample until there are `max_samples`, and write the samples from time to time.

        It ends after some seconds at the latest; the clock returns nanoseconds.
        """
        self.write()  # this records how long the start took, even if the worker ends soon
        begun_ns = clock()
        try:
            wake_on_time()
            sample_repeatedly(
                self.take_sample,
                self.add_sample,
                lambda: max_samples if clock() - begun_ns >= 1e9 * seconds else self.count(),
                stop,
                interval_s=interval_s,
                max_samples=max_samples,
            )
        finally:
            self.write()

    def count(self) -> int:
        """Return the number of samples, in which `IDLE_WEIGHT` idle samples count as one."""
        return self._activities.total() + self._idle // IDLE_WEIGHT

    def take_sample(self) -> tuple[WorkerActivity, str | None] | None:
        """Return what the main thread does, and the file that it waits for.

        The activity is empty outside the worker's loop.
        """
        activity = read_stack(
            self.watched_thread, lambda frame: activity_of_worker(frame) or ("", None)
        )
        if activity is None:
            return None
        # The native id of the main thread is the id of the process.
        return activity, storage_waits.waits_for_storage(os.getpid())

    def add_sample(self, sample: tuple[WorkerActivity, str | None], timing: SampleTiming) -> None:
        """Count a sample of the main thread."""
        (activity, place), path = sample
        if not activity or (activity != WORK and not self._places):
            # Before the first batch the other workers are being started.
            self._idle += 1
            if activity == WAITING:
                self._waiting += 1
            if self._waiting >= MIN_WAITING and self._waiting % WRITE_EVERY == 0:
                self.write()
            return
        if not self._activities:
            self._reads_before = storage_waits.reads_so_far(os.getpid())
            self._cpu_before = cpu_time()
        if place is not None:
            number = self._places.total()
            place, is_doubtful = stack_lines.attribute_sample(place, timing, number)
            self._places[place] += timing.weight
            if is_doubtful:
                self._doubts[place] += timing.weight
        if activity == WORK and path is not None:
            self._blocked[storage_waits.filesystem_of(path)] += timing.weight
        before = self._activities.total()
        self._activities[activity] += timing.weight
        if before // WRITE_EVERY < self._activities.total() // WRITE_EVERY:
            self.write()

    def write(self) -> None:
        """Write the samples so far, in the place of those that were written before."""
        only_waits = not self._places and self._waiting >= MIN_WAITING
        waits = storage_waits.storage_waits(self._blocked, os.getpid(), self._reads_before)
        cpu = None if self._cpu_before is None else cpu_time()
        lines = WorkerLines(
            processes=1,
            work=self._activities[WORK],
            waiting=self._waiting if only_waits else self._activities[WAITING],
            handing=self._activities[HANDING],
            lines=stack_lines.line_counts(self._places, self._doubts),
            start_ns=self.start_ns,
            init_ns=self.init_ns,
            blocked=waits.blocked,
            filesystem=waits.filesystem,
            read=waits.read,
            cpu=None if cpu is None or self._cpu_before is None else cpu.since(self._cpu_before),
        )
        with written_whole(self.path) as path, open(path, "wb") as file:
            file.write(json.encode(lines))


def activity_of_worker(innermost: FrameType | None) -> WorkerActivity | None:
    """Return what a worker's main thread does, given its innermost frame; None outside its loop."""
    frames_inside: list[FrameType] = []
    for frame in stack_lines.frames_outwards(innermost):
        if frame.f_code.co_name == WORKER_LOOP and package_in(frame) != USER:
            return _activity(frames_inside, frame, innermost)
        frames_inside.append(frame)
    return None


def _activity(
    frames_inside: list[FrameType], loop: FrameType, innermost: FrameType | None
) -> WorkerActivity:
    """Classify the frames inside a worker's loop, of which the innermost comes first."""
    function = frames_inside[-1].f_code.co_name if frames_inside else ""
    if function == WORKER_GETS_INDICES:
        return WAITING, None
    if function != WORKER_MAKES_BATCH:
        return HANDING, None
    frames = frames_inside[:-1]
    packages = [package_in(frame) for frame in frames]
    if USER not in packages:
        return WORK, stack_lines.place_in_package(Phase.DATA_WAIT, frames, loop)
    index = packages.index(USER)
    place = stack_lines.place_in_user_code(
        Phase.DATA_WAIT, frames[index], frames[:index], innermost
    )
    users = [frame for frame, package in zip(frames, packages, strict=True) if package == USER]
    return WORK, place._replace(entry=stack_lines.entry_of(users[-1].f_code))
