"""Estimates this package's overhead per step, and chooses the steps that are timed by phase."""

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
"""With fewer steps, one-time work would be taken for a steady cost."""
MOST_APART = 20
"""At least one step in this many is timed, whatever the overhead, because by then most of the
overhead does not come from timing."""
_RECENT = 100
"""The overhead is estimated from so many windows and writes, the latest ones."""
_GOLDEN = 0.6180339887498949
"""The fractional parts of its multiples lie evenly between 0 and 1 and have no period. If a loop
does something special every few steps, steps with and without it are therefore both chosen."""
_EPOCH_START = int(StepFlag.EPOCH_START)  # as an int, since an operation on a flag makes five calls


class Overhead:
    """Estimates the time that this package adds to a step.

    The hooks of the package cost time in every step. The regions, and the writing of their times,
    cost time only in timed steps. Medians are used, since a single hook may take a thousand times
    as long as usual (ADR 42).

    Args:
        budget: The share of a step's time that the overhead may take.

    Attributes:
        boundaries: How many boundaries the phase clock has logged.
    """

    def __init__(self, budget: float) -> None:
        self.boundaries = 0
        self._budget = budget
        self._plain = self._total_ns = 0
        self._rows = self._untimed = self._written = 0
        self._hooks_ns: deque[float] = deque(maxlen=_RECENT)
        self._writes_ns: deque[float] = deque(maxlen=_RECENT)
        self._boundary_ns: float | None = None

    def add(self, window: Window) -> None:
        """Add a window of timed steps."""
        if window.own_ns:
            self._hooks_ns.append(median(window.own_ns))
        self._rows += window.count
        self._plain += window.plain_count
        self._total_ns += window.plain_ns

    def add_untimed(self, steps: int) -> None:
        """Add steps that were not timed by phase."""
        self._untimed += steps

    def add_write(self, took_ns: int) -> None:
        """Add the time of a write of records, which the median of a window does not show.

        The first write is left out, since it also creates folders and files.
        """
        if self._written and self._rows > self._written:
            self._writes_ns.append(took_ns / (self._rows - self._written))
        self._written = self._rows

    def ns_per_step(self) -> int | None:
        """Return the overhead per step; None if torch.profiler has recorded all timed steps."""
        if not self._plain:
            return None
        hooks_ns, timing_ns = self._costs()
        return round(hooks_ns + timing_ns * self._rows / (self._rows + self._untimed))

    def timing_ns_per_step(self) -> int | None:
        """Return the part of the overhead that lies where the timed regions are; None if unknown.

        It is the time for logging boundaries. Hooks and writes are timed as a part of `callbacks`.
        """
        if not self._plain:
            return None
        return round(self.boundaries * self._boundary_cost_ns() / (self._rows + self._untimed))

    def spacing(self) -> int | None:
        """Return n if one step in n can be timed within the budget; None while unknown."""
        if self._plain < _MIN_STEPS:
            return None
        hooks_ns, timing_ns = self._costs()
        left_ns = self._budget * self._total_ns / self._plain - hooks_ns
        if timing_ns <= left_ns:
            return 1
        return min(MOST_APART, math.ceil(timing_ns / left_ns)) if left_ns > 0 else MOST_APART

    def explain(self, every: int) -> str:
        """Return the message that from now on only one step in `every` is timed."""
        hooks_ns, timing_ns = self._costs()
        step = duration(round(self._total_ns / self._plain))
        left = duration(round(hooks_ns + timing_ns / every))
        return (
            f"GpuProfCallback takes {duration(round(hooks_ns + timing_ns))} of each {step} step, "
            f"more than overhead_budget={percent(self._budget)}: from now on it times one step in "
            f"{every} by phase ({left} per step), and logs no gpuprof/* scalars."
        )

    def _costs(self) -> tuple[float, float]:
        """Return the cost of the hooks per step, and the cost of timing per timed step."""
        written_ns = median_low(self._writes_ns) if self._writes_ns else 0.0
        boundaries_ns = self.boundaries * self._boundary_cost_ns() / self._rows
        return median_low(self._hooks_ns), boundaries_ns + written_ns

    def _boundary_cost_ns(self) -> float:
        if self._boundary_ns is None:
            self._boundary_ns = boundary_cost_ns()
        return self._boundary_ns


def boundary_cost_ns(rounds: int = 50, repeats: int = 5) -> float:
    """Measure how long opening or closing a region takes on this machine."""
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

    The position of the chosen step differs between groups of that many steps. The first step of an
    epoch is always timed, and so is a step that was flagged before it began. Of any other step only
    the duration is known. Time between epochs is always charged to phases, since it is rare and may
    be long.

    Args:
        timeline: The timeline of the session.
        use: Called with True before a timed step, and with False before a step without phases.
    """

    def __init__(self, timeline: StepTimeline, *, use: Callable[[bool], None]) -> None:
        self.every = 1
        self._timeline = timeline
        self._use = use
        self._since: int | None = None
        self._chosen: array[int] = array("q")
        self._group = self._steps_left = 0

    def time_one_in(self, every: int) -> None:
        """Time only one step in `every` from the next step on."""
        timeline = self._timeline
        if self._since is None:
            self._since = timeline.step + 1
            timeline.timed_count = timeline.step
            timeline.choose = self._choose
            timeline.on_epoch_end = partial(self._time, True)
        self.every = every
        self._steps_left = 1

    def is_timed(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of these steps were timed. Every step must be asked for once, in order."""
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
            offset = self._offset_in(self._group)
            self._group += 1
            self._steps_left = self.every + self._offset_in(self._group) - offset
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
        """Return the position of the chosen step in a group of steps."""
        return int(self.every * (group * _GOLDEN % 1.0))
