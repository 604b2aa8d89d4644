"""Makes the recordings of a fit, writes their traces, and says why there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.dynamo import counters
from lightning_gpuprof.adapters.profiler import TorchTrace, busy_profiler
from lightning_gpuprof.capture.cycles import PROBE, Recorded
from lightning_gpuprof.capture.forecast import Forecast
from lightning_gpuprof.capture.trace_files import TraceFiles
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.session.output import RunOutput

_cuda: Any = torch.cuda
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


@dataclass
class Recordings:
    """One rank's recordings in one fit, each made by `make`; `eager`: with uncompiled code."""

    output: RunOutput
    files: TraceFiles
    forecast: Forecast
    make: Callable[[], TorchTrace]
    eager: bool
    _said: bool = False

    def new(self) -> TorchTrace | None:
        """Return a new recording, and say of it what is known; None where none can be made."""
        if self.output.unwritten:  # which was said
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
            self.output.note("trace-forecast", message=forecast)
            self.output.tell(f"[PROFILE] {forecast}")
        if self.eager and counters() is not None:
            self.output.tell(f"[PROFILE] {_UNCOMPILED}")
        return self.make()

    def save(self, recorded: Recorded) -> None:
        """Write a cycle's trace."""
        first, last = recorded.first_step, recorded.last_step
        if isinstance(recorded.trace, CaptureRange):
            said = f"steps {first} to {last} were left to another profiler (capture_range=True)"
            self.output.note("no-trace", message=said)
            return
        try:
            num_bytes = (
                self.files.size_of(recorded.trace)
                if recorded.cycle == PROBE
                else self.files.save(recorded)
            )
        except OSError as error:  # no folder, no space: the next cycle may fare better
            message = f"The trace of cycle {recorded.cycle} could not be written: {error}."
            self.output.warn(f"{message} Training goes on.")
            self.output.write(Note(step=last, name="trace-failed", message=message))
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
        self.output.note(name, message=message)
        if not self._said:
            self._said = True
            self.output.warn(message)
