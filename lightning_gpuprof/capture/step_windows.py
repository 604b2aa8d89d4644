"""Steps through the profiler windows of a fit: those of its schedule, and those of captures."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lightning_gpuprof.adapters.profiler import TorchTrace
from lightning_gpuprof.capture.cycles import CycleRunner, FinishedCycle
from lightning_gpuprof.capture.recordings import PLAIN_STEPS, Recordings, TraceForecast
from lightning_gpuprof.schedule import Schedule

WARMUP = 2
"""Steps before an extra window in which torch.profiler is on and its events are dropped."""
LEAD = 2
"""So many steps ahead an extra window can begin at the earliest: the step that runs is not flagged
any more, and the work of preparing the profiler belongs to the step after it."""

TOO_SHORT = "the training ended before the first step of the window"


class StepWindows:
    """Runs cycles whose units are steps or epochs, at the beginning of every step.

    Args:
        cycles: The cycles.
        by_step: Whether their units are steps.
        forecast: Forecasts the size of their traces.
        first_step: The step that is the first unit, if units are steps.
    """

    def __init__(
        self,
        cycles: CycleRunner,
        *,
        by_step: bool = True,
        forecast: TraceForecast | None = None,
        first_step: int = 0,
    ) -> None:
        self.cycles = cycles
        self._by_step = by_step
        self._forecast = forecast
        self._first = first_step
        self._last = first_step - 1

    @property
    def needs_forecast(self) -> bool:
        """Whether a step must still be recorded to forecast the size of traces."""
        return self._forecast is not None and self._forecast.needs_step

    def skip_to(self, number: int) -> int:
        """Count the steps before this one, and return how many of them were not announced."""
        skipped, self._last = number - self._last - 1, number
        if self._by_step:
            self.cycles.skip(skipped)
        return skipped

    @property
    def works(self) -> bool:
        """Whether `turn` may take long: a recording begins or ends."""
        return self.cycles.recording or self.needs_forecast or self.is_due

    @property
    def is_due(self) -> bool:
        """Whether a recording begins, changes or ends right before the next step."""
        return self._by_step and self.cycles.is_due()

    def end_step(self, skipped: int) -> None:
        """End the step before; `skipped` is what `skip_to` returned."""
        if self._forecast is not None:
            self._forecast.begin_step(plain=not (skipped or self.cycles.active))
        self.cycles.end_step()

    def turn(self) -> None:
        """Begin, continue or end a recording, right before a step begins."""
        if self._by_step:
            self.cycles.begin_unit()
        forecast = self._forecast
        if forecast is not None and forecast.step_is_due and self.cycles.is_due():
            forecast.needs_step = False
            self.cycles.probe()

    @property
    def touches_next_step(self) -> bool:
        """Whether a recording runs in the step that begins, or changes at its end."""
        return self.cycles.active or self.needs_forecast or self.is_due

    @property
    def next_step(self) -> int | None:
        """The step at which `turn` is needed next; None if it is not needed before an epoch ends.

        Between this step and the next call nothing need be called.
        """
        cycles = self.cycles
        if cycles.active or (cycles.is_due() and (self._by_step or self.needs_forecast)):
            return self._last + 1
        if not self._by_step or cycles.next_change is None:
            return None
        early = 1 + PLAIN_STEPS * self.needs_forecast
        return max(self._last + 1, self._first + cycles.next_change - early)


@dataclass(frozen=True)
class WindowResult:
    """What came of an extra window.

    Args:
        first_step: The first recorded step; None if none was recorded.
        last_step: The last recorded step.
        trace_file: The file's name; empty if there is none.
        problem: Why there is no trace; empty if there is one.
    """

    first_step: int | None = None
    last_step: int | None = None
    trace_file: str = ""
    problem: str = ""


class ExtraWindow(StepWindows):
    """A window beside those of the schedule, for a capture.

    Args:
        recordings: Makes the recording and writes its trace.
        capture: The number of the capture.
        now_step: The running step.
        first_step: The first step to record, `LEAD` steps ahead or more.
        steps: How many steps to record.
        stacks: Whether to record Python stacks.
        cycle: The number of the cycle in records.
        on_end: Receives what came of it, once.
        on_stopped: Called when the recording has been stopped.
        now: Returns nanoseconds.
    """

    def __init__(
        self,
        recordings: Recordings,
        *,
        capture: int,
        now_step: int,
        first_step: int,
        steps: int,
        stacks: bool,
        cycle: int,
        on_end: Callable[[WindowResult], object],
        on_stopped: Callable[[], object],
        now: Callable[[], int],
    ) -> None:
        warmup = min(WARMUP, first_step - now_step - LEAD)
        self._recordings, self._stacks, self._on_end = recordings, stacks, on_end
        self._capture, self._cycle = capture, cycle
        self._result: WindowResult | None = None
        self._is_left_out = self._ended = False
        wait = first_step - warmup - now_step - 1
        cycles = CycleRunner(
            Schedule(unit="step", wait=wait, warmup=warmup, active=steps, repeat=0),
            new_trace=self._new_trace,
            on_recorded=self._save,
            on_stopped=on_stopped,
            now=now,
        )
        super().__init__(cycles, first_step=now_step + 1)

    @property
    def is_over(self) -> bool:
        """Whether the window has been recorded, or is left out."""
        finished = self.cycles.next_change is None and not self.cycles.active
        return finished or self._is_left_out

    def end(self, why: str = "") -> None:
        """End the window with what it has recorded so far, and hand the result on.

        `why` is the reason that is given if it has recorded nothing.
        """
        if self._ended:
            return
        try:
            self.cycles.close(last=False)
        finally:
            self._hand_on(why or self._recordings.left_out or TOO_SHORT)

    def drop(self) -> None:
        """Discard the window after an error."""
        self.cycles.drop()
        self._hand_on("ProfilerSchedule has failed")

    def _hand_on(self, why: str) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(self._result or WindowResult(problem=why))

    def _new_trace(self) -> TorchTrace | None:
        options = {"with_stack": True} if self._stacks else {}
        trace = self._recordings.new(forecast=False, **options)
        self._is_left_out = trace is None
        return trace

    def _save(self, finished: FinishedCycle) -> None:
        first, last = finished.first_step, finished.last_step
        saved = self._recordings.save(replace(finished, cycle=self._cycle, capture=self._capture))
        self._result = WindowResult(first, last, saved.trace_file, saved.problem)
