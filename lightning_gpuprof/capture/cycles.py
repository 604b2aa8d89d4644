"""Runs the recordings of a schedule: one profiler object per cycle, none between cycles."""

from collections.abc import Callable
from dataclasses import dataclass

from lightning_gpuprof.adapters.profiler import TorchTrace
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.schedule import Action, Schedule

PROBE = -2
"""The number of a cycle of one step, recorded for its size alone."""


@dataclass(frozen=True)
class Recorded:
    """A cycle whose recording has been stopped and waits to be exported."""

    cycle: int
    first_step: int
    last_step: int
    trace: TorchTrace
    took_ns: int
    stop_ns: int


class Cycles:
    """Steps through a schedule; its methods are called at each border of a unit or step.

    A torch.profiler object that idles in its schedule costs tens of microseconds a step, so it is
    made when a cycle begins and dropped when the cycle ends. Ctrl-C waits during both: torch would
    be left with a profiler that runs for as long as the process.
    `new_trace` returns None where a cycle must be left out; `on_recorded` receives each recording
    that holds at least one step.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        new_trace: Callable[[], TorchTrace | None],
        on_recorded: Callable[[Recorded], None],
        now: Callable[[], int],
    ) -> None:
        self._schedule = schedule
        self._new_trace = new_trace
        self._on_recorded = on_recorded
        self._now = now
        self._unit = -1
        self._change: int | None = 0
        self._cycle = -1
        self._trace: TorchTrace | None = None
        self._recording = False
        self._steps: tuple[int, int] | None = None
        self._begun_ns = 0

    @property
    def recording(self) -> bool:
        """Events are being recorded now."""
        return self._recording

    @property
    def at_work(self) -> bool:
        """A profiler exists: it warms up or records."""
        return self._trace is not None

    @property
    def next_change(self) -> int | None:
        """The unit at which something changes next, if there is one."""
        return self._change

    def pass_over(self, units: int) -> None:
        """Enter units in which nothing changes; a unit with a change is entered late."""
        last = self._unit + units
        self._unit = last if self._change is None else min(last, self._change - 1)

    def is_due(self) -> bool:
        """Tell whether something changes at the next unit's begin."""
        return self._unit + 1 == self._change

    def begin_unit(self) -> None:
        """Enter the next step or epoch of the schedule."""
        self._unit += 1
        if self._unit != self._change:
            return
        self._change = self._schedule.next_change(self._unit)
        cycle, action = self._schedule.at(self._unit)
        if cycle != self._cycle:
            self.close()
            if action is not Action.IDLE:
                self._prepare(cycle)
        if action is Action.RECORD:
            self._start()

    def probe(self) -> None:
        """Record the step that begins, by itself, while no cycle is at work."""
        self._prepare(PROBE)
        self._start()

    def _prepare(self, cycle: int) -> None:
        self._cycle = cycle
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
        """Open a step's span where events are being recorded."""
        if self._recording and self._trace is not None:
            if self._steps is None:
                self._begun_ns = self._now()
            first = number if self._steps is None else self._steps[0]
            self._steps = (first, number)
            self._trace.begin_step(number)

    def end_step(self) -> None:
        """Close the open step's span."""
        if self._recording and self._trace is not None:
            self._trace.end_step()
            if self._cycle == PROBE:
                self.close()

    def collect(self, on: bool) -> None:
        """Leave out of an open recording what comes now, or go on."""
        if self._recording and self._trace is not None:
            self._trace.collect(on)

    def end_unit(self) -> None:
        """Leave a unit that no other may follow: its cycle ends here if this was the last."""
        if self._recording and self._schedule.next_change(self._unit) == self._unit + 1:
            self.close()

    def drop(self) -> None:
        """Stop an open recording and forget it; only for when something has gone wrong."""
        trace, self._trace, self._recording = self._trace, None, False
        if trace is not None:
            with interrupts_wait():
                trace.stop()

    def close(self) -> None:
        """End a cycle, be it early, and keep what it recorded."""
        trace, recording, steps = self._trace, self._recording, self._steps
        if trace is None:
            return
        with interrupts_wait():
            self._trace, self._recording, self._steps = None, False, None
            try:
                trace.end_step()
            finally:
                begun = self._now()
                trace.stop()
                stop_ns = self._now() - begun
        if recording and steps is not None:
            took_ns = begun - self._begun_ns
            self._on_recorded(Recorded(self._cycle, *steps, trace, took_ns, stop_ns))
