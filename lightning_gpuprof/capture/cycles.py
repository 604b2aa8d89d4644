"""Runs the cycles of a profiler schedule, each with a profiler object of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident

from lightning_gpuprof.adapters.profiler import TorchTrace
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.schedule import Schedule, ScheduledAction

PROBE = -2
"""The number of the cycle that records a single step, to forecast the size of a trace."""


@dataclass(frozen=True)
class FinishedCycle:
    """A cycle whose recording has stopped and waits to be exported."""

    cycle: int
    first_step: int
    last_step: int
    trace: TorchTrace
    took_ns: int
    """The time from the first recorded step to the end of the last."""
    stop_ns: int
    """The time that torch took to stop recording."""
    capture: int | None = None
    """The number of the capture that this is the window of."""


class CycleRunner:
    """Steps through a schedule, and records with torch.profiler as the schedule says.

    A torch.profiler object costs tens of microseconds per step even when it idles. Therefore it is
    made when a cycle begins and dropped when the cycle ends. Ctrl-C is delayed meanwhile, since it
    could otherwise leave torch with a profiler that runs for as long as the process.

    Args:
        schedule: The schedule.
        new_trace: Returns a new recording, or None if the cycle must be left out.
        on_recorded: Receives every finished cycle that has recorded at least one step.
        before_stop: Called right before a recording is stopped, with whether it is the last of the
            session.
        on_stopped: Called when a recording has been stopped, even if stopping has failed.
        now: Returns nanoseconds.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        new_trace: Callable[[], TorchTrace | None],
        on_recorded: Callable[[FinishedCycle], object],
        before_stop: Callable[[bool], object] = lambda last: None,
        on_stopped: Callable[[], object] = lambda: None,
        now: Callable[[], int],
    ) -> None:
        self._schedule = schedule
        self._new_trace = new_trace
        self._on_recorded = on_recorded
        self._before_stop = before_stop
        self._on_stopped = on_stopped
        self._now = now
        self._unit = -1
        self._next_change: int | None = 0
        self._cycle = -1
        self._trace: TorchTrace | None = None
        self._recording = False
        self._steps: tuple[int, int] | None = None
        self._begun_ns = 0
        self._thread = 0

    @property
    def recording(self) -> bool:
        """Whether events are being recorded now."""
        return self._recording

    @property
    def active(self) -> bool:
        """Whether a profiler exists, which warms up or records."""
        return self._trace is not None

    @property
    def next_change(self) -> int | None:
        """The unit at which the profiler's action changes next, or None."""
        return self._next_change

    def skip(self, units: int) -> None:
        """Count units that were not announced by `begin_unit`, up to the next change."""
        unit = self._unit + units
        self._unit = unit if self._next_change is None else min(unit, self._next_change - 1)

    def is_due(self) -> bool:
        """Return whether the profiler's action changes when the next unit begins."""
        return self._unit + 1 == self._next_change

    def begin_unit(self) -> None:
        """Begin the next step or epoch of the schedule."""
        self._unit += 1
        if self._unit != self._next_change:
            return
        self._next_change = self._schedule.next_change(self._unit)
        cycle, action = self._schedule.at(self._unit)
        if cycle != self._cycle:
            self.close()
            if action is not ScheduledAction.IDLE:
                self._prepare(cycle)
        if action is ScheduledAction.RECORD:
            self._start()

    def probe(self) -> None:
        """Record only the step that begins now. No cycle may be active."""
        self._prepare(PROBE)
        self._start()

    def _prepare(self, cycle: int) -> None:
        self._cycle = cycle
        self._thread = get_ident()
        with interrupts_wait():
            self._trace = self._new_trace()
            if self._trace is not None:
                self._trace.prepare()

    def _start(self) -> None:
        if self._trace is not None:
            with interrupts_wait():
                self._recording = True
                self._steps = None
                self._trace.start()

    def begin_step(self, number: int) -> None:
        """Open the span of a step in the trace, if events are being recorded."""
        if self._recording and self._trace is not None:
            if self._steps is None:
                self._begun_ns = self._now()
            first = number if self._steps is None else self._steps[0]
            self._steps = (first, number)
            self._trace.begin_step(number)

    def end_step(self) -> None:
        """Close the open span of a step."""
        if self._recording and self._trace is not None:
            self._trace.end_step()
            if self._cycle == PROBE:
                self.close()

    def collect(self, on: bool) -> None:
        """Pause the recording of events (`on=False`), or go on with it."""
        if self._recording and self._trace is not None:
            self._trace.collect(on)

    def end_unit(self) -> None:
        """End a unit that may be the last of the run; its cycle ends too if it is complete."""
        if self._recording and self._schedule.next_change(self._unit) == self._unit + 1:
            self.close()

    def drop(self) -> None:
        """Stop a recording and discard it, after an error."""
        if self._thread != get_ident():
            return
        trace, self._trace, self._recording = self._trace, None, False
        if trace is not None:
            with interrupts_wait():
                self._stop(trace, last=False)

    def _stop(self, trace: TorchTrace, *, last: bool) -> None:
        try:
            try:
                self._before_stop(last)
            finally:
                trace.stop()
        finally:
            self._on_stopped()

    def close(self, *, last: bool | None = None) -> None:
        """End the cycle, even if it is not complete, and hand on what it has recorded.

        Another thread than the one that began it cannot end it without crashing the process.

        Args:
            last: Whether no recording of this session follows; by default as the schedule says.
        """
        last = self._cycle + 1 == self._schedule.cycles if last is None else last
        trace, recording, steps = self._trace, self._recording, self._steps
        if trace is None or self._thread != get_ident():
            return
        with interrupts_wait():
            self._trace, self._recording, self._steps = None, False, None
            try:
                trace.end_step()
            finally:
                stop_begun_ns = self._now()
                self._stop(trace, last=last)
                stop_ns = self._now() - stop_begun_ns
        if recording and steps is not None:
            first_step, last_step = steps
            took_ns = stop_begun_ns - self._begun_ns
            self._on_recorded(
                FinishedCycle(self._cycle, first_step, last_step, trace, took_ns, stop_ns)
            )
