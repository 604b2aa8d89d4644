"""What this package itself takes of each step, measured as it runs, against a budget."""

import time

from lightning_gpuprof.callbacks.windows import Window
from lightning_gpuprof.probes.phase_clock import PhaseClock
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

_MIN_STEPS = 200
"""Fewer steps hold one-time things that would pass for a steady cost."""


class OwnCost:
    """Adds up what windows say of this package's own time.

    Args:
        budget: The share of a step's time that it may take.

    Attributes:
        profiler_stall_ns: What it took of steps in which torch.profiler was at work.
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._own_ns = self._steps = self._total_ns = 0
        self._said = False
        self._boundary_ns: float | None = None
        self.profiler_stall_ns = 0

    def add(self, window: Window) -> None:
        """Take a window's own time into account."""
        self._own_ns += window.own_ns
        self._steps += window.plain_count
        self._total_ns += window.plain_ns
        self.profiler_stall_ns += window.profiled_own_ns

    def ns_per_step(self, boundaries_per_step: float) -> int | None:
        """Return the cost per step; None where no step was without torch.profiler.

        Args:
            boundaries_per_step: How often a region opens or closes.
        """
        if not self._steps:
            return None
        if self._boundary_ns is None:
            self._boundary_ns = boundary_cost_ns()
        return round(self._own_ns / self._steps + boundaries_per_step * self._boundary_ns)

    def over_budget(self, boundaries_per_step: float) -> str | None:
        """Return, once, what to say where the cost per step exceeds the budget."""
        if self._said or self._steps < _MIN_STEPS:
            return None
        cost = self.ns_per_step(boundaries_per_step)
        step_ns = self._total_ns / self._steps
        if cost is None or cost <= self._budget * step_ns:
            return None
        self._said = True
        return (
            f"lightning_gpuprof takes {duration(cost)} of each {duration(round(step_ns))} step, "
            f"more than overhead_budget={percent(self._budget)}: from here on records are written "
            "less often and gpuprof/* scalars not at all."
        )


def boundary_cost_ns(rounds: int = 200) -> float:
    """Measure what opening or closing a region costs on this machine."""
    clock = PhaseClock(time.perf_counter_ns)
    clock.start()
    region = clock.region(Phase.OTHER)
    begin = time.perf_counter_ns()
    for _ in range(rounds):
        with region:
            pass
    return (time.perf_counter_ns() - begin) / (2 * rounds)
