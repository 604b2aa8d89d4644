"""Makes the recordings of a fit, forecasts the size of their traces, and writes them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import HOOKS, PER_BATCH_HOOKS, has_hook
from lightning_gpuprof.adapters.cupti import CuptiTeardown
from lightning_gpuprof.adapters.dynamo import counters
from lightning_gpuprof.adapters.profiler import TorchTrace, busy_profiler
from lightning_gpuprof.capture.cycles import PROBE, FinishedCycle
from lightning_gpuprof.capture.trace_files import TraceFiles
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.runtime import fits
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.schedule import Schedule
from lightning_gpuprof.units import size

_cuda: Any = torch.cuda
MAX_BYTES = 500_000_000
"""Viewers do not open larger traces; the finding `trace-too-large` has the same limit."""
MIN_STEPS = 20
"""A first window of fewer steps is not worth a forecast, for which a step is recorded before it."""
PLAIN_STEPS = 2
"""Before the step that is recorded for the forecast, this many steps run without a profiler. The
last of them shows how long a step takes."""
OTHER_THREAD = (
    "Another thread of this process trains too, and torch.profiler can record only one thread, so "
    "no profiler window is recorded while both run."
)
CANNOT_WRITE = "The run's folder cannot be written any more."
_UNCOMPILED = (
    "Compiled code runs uncompiled in this profiler window (compiled='eager'): the arithmetic of "
    "its steps may differ in the last digits."
)


class CaptureRange(TorchTrace):
    """Takes the place of a recording, and lets another profiler (nsys or ncu) know when to record.

    Every step is an NVTX range, by whose name `analyze` recognizes it.
    """

    def __init__(self, **_: object) -> None:
        self._step, self._on = None, False

    @override
    def prepare(self) -> None:
        """Nothing to load."""

    @override
    def start(self) -> None:
        _cuda.profiler.start()
        self._on = True

    @override
    def begin_step(self, number: int) -> None:
        self._step = _cuda.nvtx.range(f"ProfilerStep#{number}")
        self._step.__enter__()

    @override
    def stop(self) -> None:
        if self._on:
            self._on = False
            _cuda.profiler.stop()


class TraceForecast:
    """Forecasts how large the next trace will be, and how slow its steps.

    The forecast is based on a window that was recorded before, or on a single step that is recorded
    for this purpose before the first window.

    Args:
        schedule: The profiler's schedule.
        steps_per_unit: Steps of an epoch, or 1; infinite if unknown.
        explicit: Whether the user has given the schedule.
        now: Returns nanoseconds.
    """

    def __init__(
        self,
        schedule: Schedule,
        steps_per_unit: float,
        *,
        explicit: bool,
        now: Callable[[], int],
    ) -> None:
        self._per_unit = int(steps_per_unit) if isfinite(steps_per_unit) else 0
        self._steps = schedule.active * self._per_unit
        self._now = now
        self._step_began_ns: int | None = None
        self._plain_steps = 0
        self._plain_ns = 0.0
        self._recorded_ns = 0.0
        self._step_bytes = 0.0
        self.needs_step = explicit and self._steps >= MIN_STEPS
        """Whether a step must still be recorded before the first window."""

    @property
    def step_is_due(self) -> bool:
        """Whether the step that begins now should be recorded for the forecast."""
        return self.needs_step and self._plain_steps >= PLAIN_STEPS

    def begin_step(self, *, plain: bool) -> None:
        """Note that a step begins; `plain` says that no profiler was active in the step before."""
        before, self._step_began_ns = self._step_began_ns, self._now()
        if plain and before is not None:
            self._plain_ns = self._step_began_ns - before
            self._plain_steps += 1

    def begin_epoch(self) -> None:
        """Note that the next step does not directly follow another."""
        self._step_began_ns = None
        self._plain_steps = 0

    def add_measurement(self, num_bytes: int, steps: int, took_ns: int) -> None:
        """Base the forecast on a trace: its size, its number of steps, and how long they took."""
        self._step_bytes = num_bytes / steps
        self._recorded_ns = took_ns / steps

    def text(self) -> str | None:
        """Return the forecast for the next window. If it is too large, propose a smaller window."""
        if not self._step_bytes or not self._steps:
            return None
        num_bytes = self._step_bytes * self._steps
        slower = ""
        if self._plain_ns and self._recorded_ns:
            ratio = self._recorded_ns / self._plain_ns
            slower = f", and each step takes {max(1.0, ratio):.1f} times as long"
        forecast = (
            f"The next profiler window records {self._steps} steps: its trace will have about "
            f"{size(num_bytes)} before compression{slower}."
        )
        if num_bytes <= MAX_BYTES:
            return forecast
        max_steps = max(1, int(MAX_BYTES / self._step_bytes))
        max_units = max_steps // self._per_unit
        change = f"active={max_units}" if max_units else f"unit='step', active={max_steps}"
        return f"{forecast} Viewers fail above 500 MB: set {change}, or record no stacks."


@dataclass(frozen=True)
class SavedTrace:
    """The name of a trace's file, or why it could not be written."""

    trace_file: str = ""
    problem: str = ""


@dataclass
class Recordings:
    """Makes and writes the recordings of a rank during a fit.

    Args:
        context: The session that the recordings belong to.
        files: Writes the traces.
        forecast: Forecasts the size of the next trace.
        make: Returns a new recording. It may be called with other values of `TorchTrace`'s
            arguments.
        eager: Whether compiled code runs uncompiled while it is recorded.
        teardown: Detaches CUPTI behind the last recording; None to leave it attached.
        left_out: Why the last recording was not made; empty if it was.
    """

    context: RunContext
    files: TraceFiles
    forecast: TraceForecast
    make: Callable[..., TorchTrace]
    eager: bool
    teardown: CuptiTeardown | None = None
    left_out: str = ""
    _warned: bool = False

    def new(self, *, forecast: bool = True, **options: Any) -> TorchTrace | None:
        """Return a new recording, or None if none can be made; `left_out` then says why.

        Args:
            forecast: Whether to show the forecast for the next window of the schedule.
            **options: Arguments of `TorchTrace` that differ from those of the schedule's windows.
        """
        self.left_out = ""
        if self.context.cannot_write:
            self.left_out = CANNOT_WRITE
            return None  # the context has shown a warning
        if fits.runs_elsewhere():
            self.note_other_thread()
            return None
        busy = busy_profiler()
        if busy is not None:
            self.note_busy(f"{busy[0].upper()}{busy[1:]} is active")
            return None
        obstacle = self.files.obstacle()
        if obstacle is not None:
            self._note_left_out("trace-failed", f"No trace is recorded: {obstacle}.")
            return None
        text = self.forecast.text() if forecast else None
        if text is not None:
            self.context.note("trace-forecast", message=text)
            self.context.inform(f"[PROFILE] {text}")
        if self.eager and counters() is not None:
            self.context.inform(f"[PROFILE] {_UNCOMPILED}")
        if not fits.claim_profiler(self.context):
            self.note_busy("Another window or fit of this process is being recorded")
            return None
        try:
            return self.make(**options)
        except BaseException:
            self.stopped()
            raise

    def before_stop(self, last: bool) -> None:
        """Have CUPTI detached behind the last recording, if that is switched on and safe."""
        if self.teardown is None:
            return
        obstacle = self.teardown.before_stop(last=last)
        if obstacle is not None:
            message = f"teardown='on' leaves CUPTI attached to the GPU: {obstacle}."
            self.context.note("cupti-attached", message=message)
            self.context.inform(f"[PROFILE] {message}")

    def stopped(self) -> None:
        """Let others in this process record."""
        fits.release_profiler(self.context)

    def save(self, finished: FinishedCycle) -> SavedTrace:
        """Write the trace of a cycle, and return its file's name or why there is none."""
        first, last = finished.first_step, finished.last_step
        if isinstance(finished.trace, CaptureRange):
            message = f"steps {first} to {last} were left to another profiler (capture_range=True)"
            self.context.note("no-trace", message=message)
            return SavedTrace(problem=message)
        saved = SavedTrace()
        try:
            if finished.cycle == PROBE:
                num_bytes = self.files.size_of(finished.trace)
            else:
                record = self.files.save(finished)
                saved, num_bytes = SavedTrace(record.trace_file), record.trace_bytes or 0
        except OSError as error:  # no folder or no space, of which the next cycle may have more
            window = "cycle" if finished.capture is None else "capture"
            number = finished.cycle if finished.capture is None else finished.capture
            message = f"The trace of {window} {number} could not be written: {error}."
            self.context.warn(f"{message} Training goes on.")
            self.context.write(Note(step=last, name="trace-failed", message=message))
            return SavedTrace(problem=message)
        if finished.capture is None:  # a capture may hold stacks, unlike the schedule's windows
            self.forecast.add_measurement(num_bytes, last - first + 1, finished.took_ns)
        return saved

    def note_busy(self, cause: str) -> None:
        """Note that nothing is recorded because of another profiler."""
        self._note_left_out(
            "profiler-busy",
            f"{cause}. Only one profiler can record at a time, so ProfilerSchedule gives way. "
            "Remove the other profiler to get a trace of this package.",
        )

    def note_other_thread(self) -> None:
        """Note that a window ends because another thread of this process trains too."""
        self._note_left_out("profiler-busy", OTHER_THREAD)

    def _note_left_out(self, name: str, message: str) -> None:
        """Note why a cycle is not recorded, and show the first such message to the user."""
        self.left_out = message
        self.context.note(name, message=message)
        if not self._warned:
            self._warned = True
            self.context.warn(message)


class _Paused:
    """A context manager in which a recording is paused. Contexts can be nested."""

    def __init__(self, collect: Callable[[bool], None]) -> None:
        self._collect = collect
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._collect(False)

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._collect(True)


def pause_outside_training(
    trainer: Any, wrappers: Wrappers, collect: Callable[[bool], None]
) -> None:
    """Pause the recording during validation, checkpoints and the hooks of other callbacks.

    `collect` is called with False where a pause begins, and with True where it ends.
    """
    paused = _Paused(collect)
    wrappers.call_inside(trainer.fit_loop.epoch_loop.val_loop, "run", paused)
    wrappers.call_inside(trainer, "save_checkpoint", paused)
    # On a GPU a pause waits for the device, which is too slow for hooks that run in every batch.
    recorded_hooks = () if trainer.strategy.root_device.type == "cpu" else PER_BATCH_HOOKS
    for callback in trainer.callbacks:
        if type(callback).__module__.startswith("lightning_gpuprof."):
            continue
        for hook in HOOKS:
            if hook not in recorded_hooks and has_hook(callback, hook):
                wrappers.call_inside(callback, hook, paused)
