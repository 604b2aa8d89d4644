"""Makes the recordings of a fit: forecasts their traces, writes them, says why there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.dynamo import counters
from lightning_gpuprof.adapters.profiler import TorchTrace, busy_profiler
from lightning_gpuprof.capture.cycles import PROBE, Recorded
from lightning_gpuprof.capture.trace_files import TraceFiles
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.hooks import HOOKS, PER_BATCH_HOOKS, has_hook
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.schedule import Schedule
from lightning_gpuprof.units import size

_cuda: Any = torch.cuda
MOST_BYTES = 500_000_000
"""Larger traces are beyond what viewers open, as `trace-too-large` has it."""
MIN_STEPS = 20
"""A first window of fewer steps is not worth a recorded step before it."""
PLAIN_STEPS = 2
"""Steps in a row that nobody records, before one is: the last tells how long a step takes."""
_UNCOMPILED = (
    "Compiled code runs uncompiled in this profiler window (compiled='eager'): the arithmetic of "
    "its steps may differ in the last digits."
)


class CaptureRange(TorchTrace):
    """Stands in for a recording: tells another profiler, such as nsys or ncu, when to record.

    Steps are NVTX ranges, by whose names `analyze` knows them.
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


class Forecast:
    """Knows how large and how slow a recorded step is: from one recorded early, or a window.

    `steps_per_unit` is infinite where it is unknown. `explicit`: the schedule is the user's own.
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
        self._at: int | None = None
        self._seen = 0
        self._plain_ns = self._recorded_ns = self._step_bytes = 0.0
        self.wanted = explicit and self._steps >= MIN_STEPS
        """A step is to be recorded before the first window."""

    @property
    def ready(self) -> bool:
        """The step that begins is the one to record."""
        return self.wanted and self._seen >= PLAIN_STEPS

    def begin_step(self, *, plain: bool) -> None:
        """A step begins; `plain`: it follows one that no profiler was at work in."""
        at, self._at = self._at, self._now()
        if plain and at is not None:
            self._plain_ns = self._at - at
            self._seen += 1

    def begin_epoch(self) -> None:
        """The next step follows none."""
        self._at, self._seen = None, 0

    def learn(self, num_bytes: int, steps: int, took_ns: int) -> None:
        """So large a trace of so many steps was recorded in this time."""
        self._step_bytes, self._recorded_ns = num_bytes / steps, took_ns / steps

    def text(self) -> str | None:
        """Return the forecast of the next window, with a smaller one if it is too large."""
        if not self._step_bytes or not self._steps:
            return None
        num_bytes, slower = self._step_bytes * self._steps, ""
        if self._plain_ns and self._recorded_ns:
            ratio = self._recorded_ns / self._plain_ns
            slower = f", and each step takes {max(1.0, ratio):.1f} times as long"
        said = (
            f"The next profiler window records {self._steps} steps: its trace will have about "
            f"{size(num_bytes)} before compression{slower}."
        )
        if num_bytes <= MOST_BYTES:
            return said
        fewer = max(1, int(MOST_BYTES / self._step_bytes))
        units = fewer // self._per_unit
        change = f"active={units}" if units else f"unit='step', active={fewer}"
        return f"{said} Viewers fail above 500 MB: set {change}, or record no stacks."


@dataclass
class Recordings:
    """One rank's recordings in one fit, each made by `make`; `eager`: with uncompiled code."""

    context: RunContext
    files: TraceFiles
    forecast: Forecast
    make: Callable[[], TorchTrace]
    eager: bool
    _said: bool = False

    def new(self) -> TorchTrace | None:
        """Return a new recording, and say of it what is known; None where none can be made."""
        if self.context.unwritten:  # which was said
            return None
        busy = busy_profiler()
        if busy is not None:
            self.say_busy(f"{busy[0].upper()}{busy[1:]} is at work")
            return None
        if (why := self.files.why_not()) is not None:
            self._leave_out("trace-failed", f"No trace is recorded: {why}.")
            return None
        forecast = self.forecast.text()
        if forecast is not None:
            self.context.note("trace-forecast", message=forecast)
            self.context.tell(f"[PROFILE] {forecast}")
        if self.eager and counters() is not None:
            self.context.tell(f"[PROFILE] {_UNCOMPILED}")
        return self.make()

    def save(self, recorded: Recorded) -> None:
        """Write a cycle's trace."""
        first, last = recorded.first_step, recorded.last_step
        if isinstance(recorded.trace, CaptureRange):
            said = f"steps {first} to {last} were left to another profiler (capture_range=True)"
            self.context.note("no-trace", message=said)
            return
        try:
            if recorded.cycle == PROBE:
                num_bytes = self.files.size_of(recorded.trace)
            else:
                num_bytes = self.files.save(recorded)
        except OSError as error:  # no folder, no space: the next cycle may fare better
            message = f"The trace of cycle {recorded.cycle} could not be written: {error}."
            self.context.warn(f"{message} Training goes on.")
            self.context.write(Note(step=last, name="trace-failed", message=message))
            return
        self.forecast.learn(num_bytes, last - first + 1, recorded.took_ns)

    def say_busy(self, why: str) -> None:
        """Note that another profiler records."""
        self._leave_out(
            "profiler-busy",
            f"{why}; only one profiler can record at a time, so ProfilerSchedule gives way. "
            "Remove the other one to get a trace of ours.",
        )

    def _leave_out(self, name: str, message: str) -> None:
        """Note each time why nothing is recorded, and show it once."""
        self.context.note(name, message=message)
        if not self._said:
            self._said = True
            self.context.warn(message)


class Quiet:
    """Pauses a recording while any of these calls is under way; they may be nested."""

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


def keep_quiet(trainer: Any, wrappers: Wrappers, collect: Callable[[bool], None]) -> None:
    """Keep validation, checkpoints and other callbacks' work out: `collect` is told off and on."""
    quiet = Quiet(collect)
    wrappers.call_inside(trainer.fit_loop.epoch_loop.val_loop, "run", quiet)
    wrappers.call_inside(trainer, "save_checkpoint", quiet)
    # On a GPU each pause waits for the device: too often for what comes with each batch.
    often = () if trainer.strategy.root_device.type == "cpu" else PER_BATCH_HOOKS
    for callback in trainer.callbacks:
        if not type(callback).__module__.startswith("lightning_gpuprof."):
            for hook in HOOKS:
                if hook not in often and has_hook(callback, hook):
                    wrappers.call_inside(callback, hook, quiet)
