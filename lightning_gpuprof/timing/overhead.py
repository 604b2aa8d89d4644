"""The overhead of this package in each step, its budget, and which steps are timed by phase."""

import math
import time
from array import array
from collections import deque
from collections.abc import Callable
from functools import partial
from statistics import median, median_low

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.step_timeline import StepTimeline
from lightning_gpuprof.timing.windows import Window
from lightning_gpuprof.units import duration, percent

_MIN_STEPS = 100
"""Fewer steps hold one-time work that would pass for a steady cost."""
MOST_APART = 20
"""At least one step in this many is timed, whatever the overhead: most of what is left does not
come from timing."""
_RECENT = 100
"""The overhead is judged by this many windows and writes, the latest."""
_GOLDEN = 0.6180339887498949
"""The fractional parts of its multiples lie evenly between 0 and 1 and have no period. So a loop
that does something else every few steps is seen in each of its states."""
_EPOCH_START = int(StepFlag.EPOCH_START)  # an operation on a flag itself is five calls


class Overhead:
    """Estimates the time that this package adds to a step, from its own time in windows of steps.

    Hooks run in every step. Regions that open and close, and the writing of their times, cost
    something in timed steps only. Medians are used, since a single hook may take a thousand times
    as long as usual (ADR 42).
    """

    def __init__(self, budget: float) -> None:
        self.boundaries = 0
        self._budget = budget
        self._plain = self._total_ns = 0
        self._rows = self._passed = self._written = 0
        self._hooks_ns: deque[float] = deque(maxlen=_RECENT)
        self._writes_ns: deque[float] = deque(maxlen=_RECENT)
        self._boundary_ns: float | None = None

    def add(self, window: Window) -> None:
        """Take a window of timed steps into account."""
        if window.own_ns:
            self._hooks_ns.append(median(window.own_ns))
        self._rows += window.count
        self._plain += window.plain_count
        self._total_ns += window.plain_ns

    def passed(self, steps: int) -> None:
        """Take steps into account that were not timed by phase."""
        self._passed += steps

    def wrote(self, took_ns: int) -> None:
        """Take the time of a write of records into account, which no median of a window shows.

        The first write is left out: it makes folders and files, which is no steady cost.
        """
        if self._written and self._rows > self._written:
            self._writes_ns.append(took_ns / (self._rows - self._written))
        self._written = self._rows

    def ns_per_step(self) -> int | None:
        """Return the overhead per step; None where torch.profiler recorded all timed steps."""
        if not self._plain:
            return None
        hooks_ns, timing_ns = self._costs()
        return round(hooks_ns + timing_ns * self._rows / (self._rows + self._passed))

    def spacing(self) -> int | None:
        """Return one step in how many can be timed within the budget; None while unknown."""
        if self._plain < _MIN_STEPS:
            return None
        hooks_ns, timing_ns = self._costs()
        left_ns = self._budget * self._total_ns / self._plain - hooks_ns
        if timing_ns <= left_ns:
            return 1
        return min(MOST_APART, math.ceil(timing_ns / left_ns)) if left_ns > 0 else MOST_APART

    def explain(self, every: int) -> str:
        """Return the message for when one step in `every` is timed from here on."""
        hooks_ns, timing_ns = self._costs()
        step = duration(round(self._total_ns / self._plain))
        left = duration(round(hooks_ns + timing_ns / every))
        return (
            f"lightning_gpuprof takes {duration(round(hooks_ns + timing_ns))} of each {step} step, "
            f"more than overhead_budget={percent(self._budget)}: from here on it times one step in "
            f"{every} by phase ({left} per step), and logs no gpuprof/* scalars."
        )

    def _costs(self) -> tuple[float, float]:
        """Return the time of hooks in each step, and of timing in each step that is timed."""
        if self._boundary_ns is None:
            self._boundary_ns = boundary_cost_ns()
        written_ns = median_low(self._writes_ns) if self._writes_ns else 0.0
        boundaries_ns = self.boundaries * self._boundary_ns / self._rows
        return median_low(self._hooks_ns), boundaries_ns + written_ns


def boundary_cost_ns(rounds: int = 50, repeats: int = 5) -> float:
    """Measure the time of opening or closing a region on this machine."""
    clock = PhaseClock(time.perf_counter_ns)
    clock.start()
    region = clock.region(Phase.OTHER)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        for _ in range(rounds):
            with region:
                pass
        times.append((time.perf_counter_ns() - begin) / (2 * rounds))
    return median(times)


class StepChoice:
    """Chooses the steps that are timed by phase: all, or after `time_one_in` one step in several.

    The chosen step lies somewhere else in each group of that many steps. The first step of an epoch
    is always timed, and so is a step that has been flagged before it begins. Of any other step only
    the whole duration is known. Time between epochs is always charged to phases: it is rare and may
    be long.
    """

    def __init__(self, timeline: StepTimeline, *, use: Callable[[bool], None]) -> None:
        self.every = 1
        self._timeline = timeline
        self._use = use
        self._since: int | None = None
        self._chosen: array[int] = array("q")
        self._group = self._steps_left = 0

    def time_one_in(self, every: int) -> None:
        """Time one step in so many, from the next one on."""
        timeline = self._timeline
        if self._since is None:
            self._since = timeline.step + 1
            timeline.timed_count = timeline.step
            timeline.choose = self._choose
            timeline.on_epoch_end = partial(self._time, True)
        self.every = every
        self._steps_left = 1

    def is_timed(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which of these steps were timed; each step must be asked for once, in order."""
        if self._since is None:
            return np.ones(len(steps), dtype=np.bool_)
        chosen = np.array(self._chosen, dtype=np.int64)
        timed: npt.NDArray[np.bool_] = (steps < self._since) | np.isin(steps, chosen)
        del self._chosen[: int(np.searchsorted(chosen, steps[-1], side="right"))]
        return timed

    def _choose(self) -> bool:
        timeline = self._timeline
        self._steps_left -= 1
        due = self._steps_left <= 0
        if due:  # count the steps from here to the chosen step of the next group
            here = self._offset_in(self._group)
            self._group += 1
            self._steps_left = self.every + self._offset_in(self._group) - here
        timed = due or bool(timeline.flags & _EPOCH_START or timeline.next_flags)
        if timed:
            self._chosen.append(timeline.step)
            timeline.timed_count += 1
        self._time(timed)
        return timed

    def _time(self, timed: bool) -> None:
        if timed is not self._timeline.timed:
            self._timeline.timed = timed
            self._use(timed)

    def _offset_in(self, group: int) -> int:
        """Return the position of a group's chosen step in it."""
        return int(self.every * (group * _GOLDEN % 1.0))
