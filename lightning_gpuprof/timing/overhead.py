"""The overhead of this package in each step against a budget, and which steps are marked for it."""

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
"""One step in this many is marked, whatever the overhead: most of the rest is not the marks'."""
_RECENT = 100
"""Windows and writes that are judged by."""
_GOLDEN = 0.6180339887498949
"""Multiples of it, less their whole parts, are spread evenly and follow no period: a loop that
does something else every few steps is met in all its states."""
_EPOCH_START = int(StepFlag.EPOCH_START)  # an operation on a flag itself is five calls


class Overhead:
    """Judges by this package's own time in windows of steps.

    Hooks run in every step; boundaries of regions, and the writing of their times, are the price of
    marked steps alone. Medians count, since single hooks may take a thousand times theirs (ADR 42).
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
        """Take a window of marked steps into account."""
        if window.own_ns:
            self._hooks_ns.append(median(window.own_ns))
        self._rows += window.count
        self._plain += window.plain_count
        self._total_ns += window.plain_ns

    def passed(self, steps: int) -> None:
        """Take steps into account that were not marked."""
        self._passed += steps

    def wrote(self, took_ns: int) -> None:
        """Take a write of records into account; the first makes folders and files: no steady cost.

        A marked step holds its time, which no median of a window shows.
        """
        if self._written and self._rows > self._written:
            self._writes_ns.append(took_ns / (self._rows - self._written))
        self._written = self._rows

    def ns_per_step(self) -> int | None:
        """Return the overhead per step; None where no marked step was without torch.profiler."""
        if not self._plain:
            return None
        hooks_ns, marks_ns = self._parts()
        return round(hooks_ns + marks_ns * self._rows / (self._rows + self._passed))

    def spacing(self) -> int | None:
        """Return one step in how many can be marked; None where too little is known."""
        if self._plain < _MIN_STEPS:
            return None
        hooks_ns, marks_ns = self._parts()
        left_ns = self._budget * self._total_ns / self._plain - hooks_ns
        if marks_ns <= left_ns:
            return 1
        return min(MOST_APART, math.ceil(marks_ns / left_ns)) if left_ns > 0 else MOST_APART

    def explain(self, every: int) -> str:
        """Return the message when one step in so many is marked from here on."""
        hooks_ns, marks_ns = self._parts()
        step = duration(round(self._total_ns / self._plain))
        left = duration(round(hooks_ns + marks_ns / every))
        return (
            f"lightning_gpuprof takes {duration(round(hooks_ns + marks_ns))} of each {step} step, "
            f"more than overhead_budget={percent(self._budget)}: from here on it times one step in "
            f"{every} by phase ({left} per step), and logs no gpuprof/* scalars."
        )

    def _parts(self) -> tuple[float, float]:
        """Return the time of hooks in each step, and of marks in each step that has them."""
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
    """Marks every step, or after `spread` one step in so many, somewhere in each block of them.

    The first step of an epoch is always marked, and so is one that has flags already. Of a step
    that is not marked the time is known from border to border alone. All time between epochs is
    charged to phases: it is rare and may be long.
    """

    def __init__(self, timeline: StepTimeline, *, use: Callable[[bool], None]) -> None:
        self.every = 1
        self._timeline = timeline
        self._use = use
        self._since: int | None = None
        self._chosen: array[int] = array("q")
        self._block = self._left = 0

    def spread(self, every: int) -> None:
        """Mark one step in so many, from the next one on."""
        timeline = self._timeline
        if self._since is None:
            self._since = timeline.step + 1
            timeline.nth_mark = timeline.step
            timeline.choose = self._choose
            timeline.left = partial(self._mark, True)
        self.every = every
        self._left = 1

    def is_marked(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of each step, asked for in order and once, whether it was marked."""
        if self._since is None:
            return np.ones(len(steps), dtype=np.bool_)
        chosen = np.array(self._chosen, dtype=np.int64)
        marked: npt.NDArray[np.bool_] = (steps < self._since) | np.isin(steps, chosen)
        del self._chosen[: int(np.searchsorted(chosen, steps[-1], side="right"))]
        return marked

    def _choose(self) -> bool:
        timeline = self._timeline
        self._left -= 1
        due = self._left <= 0
        if due:  # steps from this block's mark to the next block's
            here = self._place(self._block)
            self._block += 1
            self._left = self.every + self._place(self._block) - here
        mark = due or bool(timeline.flags & _EPOCH_START or timeline.next_flags)
        if mark:
            self._chosen.append(timeline.step)
            timeline.nth_mark += 1
        self._mark(mark)
        return mark

    def _mark(self, mark: bool) -> None:
        if mark is not self._timeline.marked:
            self._timeline.marked = mark
            self._use(mark)

    def _place(self, block: int) -> int:
        return int(self.every * (block * _GOLDEN % 1.0))
