"""What this package itself takes of each step, measured as it runs, against a budget."""

import math
import time
from collections import deque
from statistics import median, median_low

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.windows import Window
from lightning_gpuprof.units import duration, percent

_MIN_STEPS = 100
"""Fewer steps hold one-time things that would pass for a steady cost."""
MOST_APART = 20
"""One step in this many is marked, whatever the cost: what is left then is mostly other things."""
_RECENT = 100
"""Windows and writes that are judged by."""


class OwnCost:
    """Judges by what windows say of this package's own time.

    It has two parts. Hooks run in every step. Boundaries of regions, and the writing of what came
    of them, are the price of marked steps alone.

    Left out is what hooks do once in many steps: losses that are handed on, memory that is read.

    Of a window's steps, of several windows, and of writes, the median counts. A logger's file that
    is opened once, or a neighbour that takes the core amid a hook for 20 ms, is as much as a
    thousand steps' own cost: a mean would be what others take. (Two ranks on two cores wait for
    each other's threads in one hook in ten: 44 us of a step by the median, 67 to 78 by the mean.)

    Args:
        budget: The share of a step's time that it may take.

    Attributes:
        profiler_stall_ns: What it took of steps in which torch.profiler was at work.
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._plain = self._total_ns = 0
        self._rows = self._passed = 0
        self._hooks_ns: deque[float] = deque(maxlen=_RECENT)
        self._writes_ns: deque[float] = deque(maxlen=_RECENT)
        self._unwritten = self._inside_ns = 0
        self._has_written = False
        self._boundaries = 0
        self._boundary_ns: float | None = None
        self.profiler_stall_ns = 0

    def add(self, window: Window) -> None:
        """Take a window of marked steps into account."""
        inside_ns, self._inside_ns = self._inside_ns, 0
        if window.own_ns:
            *others, longest = window.own_ns  # a write is in the longest one
            self._hooks_ns.append(median([*others, max(0, longest - inside_ns)]))
        self._rows += window.count
        self._unwritten += window.count
        self._plain += window.plain_count
        self._total_ns += window.plain_ns
        self.profiler_stall_ns += window.profiled_own_ns

    def passed(self, steps: int) -> None:
        """Take steps into account that were not marked."""
        self._passed += steps

    def wrote(self, took_ns: int, *, in_marked: bool) -> None:
        """Take a write of records into account, and whether a marked step holds its time.

        That step is in the next window. The first write, which makes folders and files, is no
        steady cost.
        """
        if in_marked:
            self._inside_ns += took_ns
        if self._has_written and self._unwritten:
            self._writes_ns.append(took_ns / self._unwritten)
        self._has_written, self._unwritten = True, 0

    def saw(self, boundaries: int) -> None:
        """Say how often a region has opened or closed so far."""
        self._boundaries = boundaries

    def ns_per_step(self) -> int | None:
        """Return the cost per step; None where no marked step was without torch.profiler."""
        parts = self._parts()
        if parts is None:
            return None
        hooks_ns, marks_ns = parts
        return round(hooks_ns + marks_ns * self._rows / (self._rows + self._passed))

    def spacing(self) -> int | None:
        """Return one step in how many can be marked; None where too little is known."""
        parts = self._parts()
        if parts is None or self._plain < _MIN_STEPS:
            return None
        hooks_ns, marks_ns = parts
        left_ns = self._budget * self._total_ns / self._plain - hooks_ns
        if marks_ns <= left_ns:
            return 1
        return min(MOST_APART, math.ceil(marks_ns / left_ns)) if left_ns > 0 else MOST_APART

    def explain(self, every: int) -> str:
        """Return what to say when one step in so many is marked from here on."""
        parts = self._parts()
        if parts is None:
            return ""
        hooks_ns, marks_ns = parts
        step = duration(round(self._total_ns / self._plain))
        left = duration(round(hooks_ns + marks_ns / every))
        return (
            f"lightning_gpuprof takes {duration(round(hooks_ns + marks_ns))} of each {step} step, "
            f"more than overhead_budget={percent(self._budget)}: from here on it times one step in "
            f"{every} by phase ({left} per step), and logs no gpuprof/* scalars."
        )

    def _parts(self) -> tuple[float, float] | None:
        """Return what hooks take of each step, and marks of each step that has them."""
        if not self._plain:
            return None
        if self._boundary_ns is None:
            self._boundary_ns = boundary_cost_ns()
        written_ns = median_low(self._writes_ns) if self._writes_ns else 0.0
        boundaries_ns = self._boundaries * self._boundary_ns / self._rows
        return median_low(self._hooks_ns), boundaries_ns + written_ns


def boundary_cost_ns(rounds: int = 50, repeats: int = 5) -> float:
    """Measure what opening or closing a region costs on this machine."""
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
