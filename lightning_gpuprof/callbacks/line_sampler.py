"""Samples at which lines the training thread and the loader's workers spend their time."""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import BATCH_START
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.sampling.pacing import (
    SampleTiming,
    read_stack,
    sample_repeatedly,
    wake_on_time,
)
from lightning_gpuprof.recorders.sampling.stack_lines import place_in_loop
from lightning_gpuprof.recorders.sampling.storage_waits import waits_for_storage
from lightning_gpuprof.recorders.sampling.thread_samples import ThreadSample, ThreadSamples
from lightning_gpuprof.recorders.sampling.worker_sampler import WorkerSampler
from lightning_gpuprof.records.lines import CapturedLines, WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.guard import guarded, is_disabled
from lightning_gpuprof.runtime.hooks import HookSet, dispatcher_in
from lightning_gpuprof.runtime.recording import RecordingCallback

THREAD = "gpuprof-lines"
END_S = 2.0
"""How long to wait for the thread to end. It takes some milliseconds, or longer without a core."""
MOST_OUTSIDE = 200
"""So many samples between epochs are taken. Those beyond it count as samples in steps."""
LATER_INTERVAL_S, LATER_GROWTH = 0.1, 0.004
"""Once the samples in steps are complete, the thread still looks for pauses between epochs. The
intervals grow with the run: work that takes 3 % of its time is sampled five times or more as soon
as that has been a minute, by 250 looks in the first 25 s and 1,500 in an hour."""
AGAIN_PER_S = 15
"""Samples per second of `sample_again` at most: 300 in twenty seconds, as at the beginning."""


class LineSampler(RecordingCallback):
    """Samples the Python stack of the training thread, and of its loader's workers, for a while.

    A thread wakes up every `interval_s` on average. The intervals are irregular, so that samples do
    not always fall into the same part of a step. The thread reads names and line numbers, but no
    values. When it has `max_samples` samples of steps, it only looks for pauses between epochs,
    ever more rarely. Work between epochs that takes little of the run may be missed. The first
    `warmup` steps are left out. The time of a line is host time: on a GPU, the work that the line
    has queued may run later. For a capture, `sample_again` takes samples that are counted apart.

    Costs: 0.1 to 5 ms for each of 300 samples, which take about 20 s; after that next to nothing,
        since the thread wakes up ten times a second at most, and ever more rarely. A capture costs
        the same as the first 20 s.
    Touches: a thread, until training ends, and another one in a capture. `sys.setswitchinterval`,
        in the 6 ms before each sample (`os.register_at_fork` restores it in a process that is
        forked meanwhile): without it nearly all samples would fall into calls that release the
        interpreter's lock, and none into a Python loop. On Python 3.11, a young garbage collection
        that is near is made before a sample, since a collection during a sample could crash the
        process. `worker_init_fn` of the training loader while its workers start, which is how code
        runs in them, and `_load_combined_loader_states` of Lightning's loop, which shows when they
        start in the first epoch. In each of the first two workers a thread and a temporary file;
        with captures, the thread looks once a second whether to sample again. At each sample it
        reads the kernel's files about the sampled thread in /proc.
    When: training, from the end of warm-up; and captures.
    Switch: lines=False

    Args:
        interval_s: The mean interval of the first samples. Later samples are further apart.
        max_samples: The number of samples after which it stops.
        warmup: Steps that are left out.
        workers: Samples the loader's workers.

    Raises:
        ConfigError: A setting cannot work.
    """

    _of_a_run = ("_stop", "_thread", "_again")

    def __init__(
        self,
        *,
        interval_s: float = 0.02,
        max_samples: int = 300,
        warmup: int = 5,
        workers: WorkerSampler | None = None,
    ) -> None:
        if interval_s <= 0 or max_samples < 1:
            raise ConfigError(
                f"LineSampler(interval_s={interval_s}, max_samples={max_samples}) would take no "
                "sample. Pass an interval above 0 and at least 1 sample."
            )
        super().__init__()
        self.interval_s, self.max_samples, self.warmup = interval_s, max_samples, warmup
        self._samples = ThreadSamples()
        self._recorded_counts = (0, 0)
        self._watched = self._native = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._again: _Again | None = None
        self._workers = workers or WorkerSampler()
        self._epoch = 0
        self._next_batch = HookSet({BATCH_START: self._restore_loaders})

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._samples, self._recorded_counts = ThreadSamples(), (0, 0)
        self._again = None
        self._stop = threading.Event()
        if stage == "fit" and self._context is not None and _can_walk_frames():
            self._workers.setup(trainer, self._context)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._workers.restore_loaders()
        self._epoch = trainer.current_epoch
        self._end_thread()
        if not _can_walk_frames():
            return
        self._watched, self._native = threading.get_ident(), threading.get_native_id()
        self._samples = ThreadSamples(self._native)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, args=(self._stop,), name=THREAD, daemon=True
        )
        self._thread.start()

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Sample the workers that an epoch starts. Those of the first epoch are running already."""
        if trainer.current_epoch == self._epoch or not _can_walk_frames():
            return
        self._workers.sample_next_workers(trainer.fit_loop)
        if self._workers.has_replaced:
            self._next_batch.add(dispatcher_in(trainer, self))

    def _restore_loaders(self, *_: Any) -> None:
        self._next_batch.drop()
        self._workers.restore_loaders()

    def take_sample(self) -> ThreadSample | None:
        """Return where in the loop the training thread is, and a file that it waits for."""
        if self._context is None or self._context.fit_has_ended:
            self._stop.set()  # the fit has ended without `on_train_end`
            if self._again is not None:
                self._again.stop.set()
            return None
        step = self._context.step
        if step < self.warmup:
            return None
        place = read_stack(self._watched, place_in_loop)
        if place is None:
            return None
        # The file is read after the stack, since reading it releases the interpreter's lock.
        is_data_wait = place.phase is Phase.DATA_WAIT and not place.outside
        return ThreadSample(place, waits_for_storage(self._native) if is_data_wait else None, step)

    def take_sample_outside(self) -> ThreadSample | None:
        """Return the same between epochs; None while a step is running."""
        if self._context is not None and self._context.in_step:
            return None
        return self.take_sample()

    def add_sample(self, sample: ThreadSample, timing: SampleTiming) -> None:
        """Count a sample."""
        self._samples.add(sample, timing)

    @guarded
    def _watch(self, stop: threading.Event) -> None:
        wake_on_time()
        sample_repeatedly(
            self.take_sample,
            self.add_sample,
            lambda: self._samples.count + max(0, self._samples.outside_count - MOST_OUTSIDE),
            stop,
            interval_s=self.interval_s,
            max_samples=self.max_samples,
        )
        sample_repeatedly(
            self.take_sample_outside,
            self.add_sample,
            lambda: self._samples.outside_count,
            stop,
            interval_s=LATER_INTERVAL_S,
            max_samples=MOST_OUTSIDE,
            growth=LATER_GROWTH,
        )

    @override
    @guarded
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._write()

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._release()
        self._write()

    def _write(self) -> None:
        self._workers.write()
        samples = self._samples
        counts = samples.count, samples.outside_count
        if self._context is None or counts == self._recorded_counts:
            return
        if counts[1] != self._recorded_counts[1]:
            self._context.write(samples.between_epochs())
        if counts[0] != self._recorded_counts[0]:
            self._context.write(samples.in_steps())
        self._recorded_counts = counts

    @override
    def _release(self) -> None:
        self._restore_loaders()
        if self._again is not None:
            self._again.end()
            self._again.workers = self._workers.read_again(self._again.capture)
        self._workers.release()
        self._end_thread()
        self._watched = 0

    def _end_thread(self) -> None:
        self._stop.set()
        thread, self._thread = self._thread, None
        _join(thread)

    def cannot_sample(self) -> str | None:
        """Return why `sample_again` cannot be called now; None if it can."""
        if is_disabled(self):
            return "the sampling of lines failed and is off in this run"
        if not _can_walk_frames():
            return "lines cannot be sampled without the interpreter's lock"
        if not self._watched or self._context is None:
            return "the training has not begun or has ended"
        return None

    def sample_again(self, capture: int, seconds: float) -> None:
        """Sample the training thread and the workers for some seconds, apart from other samples.

        `cannot_sample` must have returned None.

        Args:
            capture: The number of the capture.
            seconds: For how long; workers begin up to a second later.
        """
        if self._again is not None:
            self._again.end()
        again = self._again = _Again(capture, ThreadSamples(self._native))
        self._workers.sample_again(capture, seconds)
        again.start(partial(self._watch_again, again, seconds))

    @property
    def samples_again(self) -> bool:
        """Whether the samples of the last `sample_again` are still being taken."""
        return self._again is not None and self._again.runs

    def take_again(self) -> CapturedLines | None:
        """Return the samples of the last `sample_again`; None if there are none."""
        again, self._again = self._again, None
        if again is None:
            return None
        again.end()
        host = again.samples.in_steps() if again.samples.count else None
        workers = again.workers or self._workers.read_again(again.capture)
        if host is None and workers is None:
            return None
        return CapturedLines(again.capture, host, workers)

    @guarded
    def _watch_again(self, again: "_Again", seconds: float) -> None:
        wake_on_time()
        most, end_ns = round(AGAIN_PER_S * seconds), time.perf_counter_ns() + round(1e9 * seconds)
        sample_repeatedly(
            self.take_sample,
            again.samples.add,
            lambda: most if time.perf_counter_ns() >= end_ns else again.samples.count,
            again.stop,
            interval_s=self.interval_s,
            max_samples=most,
        )


class _Again:
    """Samples that are taken for a capture, and the thread that takes them."""

    def __init__(self, capture: int, samples: ThreadSamples) -> None:
        self.capture, self.samples = capture, samples
        self.workers: WorkerLines | None = None
        self.stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, run: Callable[[], object]) -> None:
        """Begin to take samples."""
        self._thread = threading.Thread(target=run, name=THREAD, daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether the thread still takes samples."""
        return self._thread is not None and self._thread.is_alive()

    def end(self) -> None:
        """End the thread."""
        self.stop.set()
        _join(self._thread)


def _join(thread: threading.Thread | None) -> None:
    """Wait until a thread has ended, unless it is the current one."""
    if thread is not None and thread is not threading.current_thread():
        thread.join(END_S)


def _can_walk_frames() -> bool:
    """Return whether the interpreter has its lock. Without it, a frame may run during a walk."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())
