"""What it costs that phases take longer and longer, for rules about what accumulates."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.growth import Growth
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.findings.model import Range
from lightning_gpuprof.findings.rule import measured
from lightning_gpuprof.records.phases import Phase

MIN_RISE = 0.1
MIN_FRAC = 0.01
"""Of a step. Dispatch and measuring change by less."""
LIKE_OTHERS = 0.5
"""If backward or the optimizer rise by this share of a phase's rise, the whole machine gets
slower."""
PHASES = (Phase.FORWARD, Phase.CALLBACKS, Phase.OTHER)
"""Phases in which a program adds to what it accumulates. A backward pass that grows is reported by
`retained-graph`."""
OTHERS = (Phase.BACKWARD, Phase.OPTIMIZER_STEP)


@dataclass(frozen=True)
class GrowthCost:
    """Phases that take longer and longer, with what that costs per step."""

    phases: Mapping[Phase, Growth]
    cost_ns: int
    """The mean over the run so far."""
    now_ns: int
    """The cost of the last steps."""

    @property
    def saving(self) -> Range:
        """The saving if nothing accumulates: from the mean of today to the cost of today."""
        return Range(low=min(self.cost_ns, self.now_ns), high=self.now_ns)

    @property
    def evidence(self) -> dict[str, int | float]:
        """The figures of a finding."""
        figures: dict[str, int | float] = {"grown_per_step_ns": self.cost_ns}
        for phase, growth in self.phases.items():
            figures[f"{phase.value}_first_ns"] = growth.first
            figures[f"{phase.value}_last_ns"] = growth.last
        return figures


def growth_cost(run: RunResults, *, alone: bool = False) -> GrowthCost:
    """Return the cost of the phases that grow.

    With `alone`, a phase counts only if backward and the optimizer do not grow like it, as they do
    where the whole machine gets slower.
    """
    step_ns, growing = measured(run.step_ns), run.variation.growing
    common = max((_rise_frac(growing[phase]) for phase in OTHERS if phase in growing), default=0.0)
    phases = {
        phase: growth
        for phase, growth in growing.items()
        if phase in PHASES
        and _rises(growth, step_ns)
        and not (alone and common >= LIKE_OTHERS * _rise_frac(growth))
    }
    # Growth began with the first step of the session, before any step was steady.
    before_ns = sum(growth.before_first for growth in phases.values())
    return GrowthCost(
        phases,
        cost_ns=before_ns + sum(growth.mean_above_first for growth in phases.values()),
        now_ns=before_ns + sum(growth.last - growth.first for growth in phases.values()),
    )


def _rise_frac(growth: Growth) -> float:
    return (growth.last - growth.first) / max(1, growth.first)


def _rises(growth: Growth, step_ns: int) -> bool:
    more_ns = growth.last - growth.first
    return _rise_frac(growth) >= MIN_RISE and more_ns >= MIN_FRAC * step_ns


def ends_run(run: RunResults, steps_left: int | None) -> bool:
    """Return whether memory that is full in so many steps ends this run, or one twice as long.

    A run whose number of steps is not known may be meant to go on for as long as it has run.
    """
    if steps_left is None or run.steps is None:
        return False
    ran, planned = run.steps.ran, settings_of(run.start).max_steps
    return steps_left <= max(ran, 0 if planned is None else planned - ran)
