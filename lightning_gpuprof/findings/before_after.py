"""The figures to look at before and after a change, and their wanted directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lightning_gpuprof.analysis.compare.same import ValueCheck
from lightning_gpuprof.analysis.compare.trace_diff import SAME_FRAC
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.question_figures import FIGURES, FigureInputs

Goal = Literal["lower", "same"]
Met = Literal["yes", "no", "unchanged", "not shown"]


@dataclass(frozen=True)
class _Watched:
    """A figure to look at before and after a change.

    Args:
        label: Its name in words.
        goal: The direction in which it should change; None for a share that is neither good nor
            bad by itself.
        may_stay: Whether it is also met by staying as it is.
    """

    label: str
    goal: Goal | None = "lower"
    may_stay: bool = False


_WATCHED = {
    "step_ns": _Watched("End-to-end time"),
    "kernels_per_step_count": _Watched("Kernels per step"),
    "gemm_ns": _Watched("Matrix products per step"),
    "gemm_frac": _Watched("Matrix products, of kernel time", goal=None),
    "sync_frac": _Watched("Host syncs"),
    "launch_gaps_frac": _Watched("Launch gaps"),
    "launch_overhead_frac": _Watched("Launch overhead"),
    "peak_allocated_bytes": _Watched("Peak memory", may_stay=True),
}


@dataclass(frozen=True)
class BeforeAfter:
    """A figure that both sides measured, and whether it changed in the direction of its goal."""

    name: str
    """The name ends in the unit, unless the program recorded the value."""
    label: str
    goal: Goal | None
    """`same` for a value that the program recorded; None for a share without a goal."""
    base: float
    new: float
    met: Met | None
    """`not shown` if chance alone may explain the change; None without a goal."""

    @property
    def diff_frac(self) -> float | None:
        """The difference as a fraction of the base; None where the base is 0."""
        return (self.new - self.base) / self.base if self.base else None


def before_after(
    base: RunResults,
    new: RunResults,
    values: Sequence[ValueCheck] = (),
    *,
    scale: tuple[float, float] = (1.0, 1.0),
    step_shown: bool = True,
) -> tuple[BeforeAfter, ...]:
    """Return the figures and recorded values that both sides have; times divided by `scale`.

    Args:
        base: The run before the change.
        new: The run after it.
        values: The recorded values of both runs.
        scale: What the times of either run are divided by.
        step_shown: Whether the difference of the step time is beyond chance.
    """
    old, now = _figures(base, scale[0]), _figures(new, scale[1])
    rows = []
    for name, watched in _WATCHED.items():
        before, after = old.get(name), now.get(name)
        if before is None or after is None:
            continue
        met = _met(watched, before, after)
        if name == "step_ns" and not step_shown:
            met = "not shown"
        rows.append(BeforeAfter(name, watched.label, watched.goal, before, after, met))
    for value in values:
        if value.last_base is not None and value.last_new is not None:
            same: Met | None = None if value.same is None else "yes" if value.same else "no"
            rows.append(
                BeforeAfter(value.name, value.name, "same", value.last_base, value.last_new, same)
            )
    return tuple(rows)


def _met(watched: _Watched, before: float, after: float) -> Met | None:
    if watched.goal is None:
        return None
    if abs(after - before) <= SAME_FRAC * max(before, after):
        return "yes" if watched.may_stay else "unchanged"
    return "yes" if after < before else "no"


def _figures(run: RunResults, divisor: float) -> dict[str, float | None]:
    facts = trace_facts(run)
    inputs = FigureInputs(run, facts, None)
    names = ("gemm_frac", "sync_frac", "launch_gaps_frac", "launch_overhead_frac")
    figures = {name: FIGURES[name](inputs) for name in names}
    if facts is not None and facts.on_device:
        kernels = facts.analysis.kernels
        figures["kernels_per_step_count"] = sum(row.count for row in kernels) / facts.steps
        gemm_ns = sum(row.total_ns for row in kernels if row.category == "gemm")
        figures["gemm_ns"] = gemm_ns / facts.steps / divisor
    # The mean step of the whole fit: a faster step may cost more elsewhere, as in compiling.
    whole_ns = run.whole_fit.step_ns if run.whole_fit is not None else 0.0
    figures["step_ns"] = None if run.step_ns is None else max(run.step_ns, whole_ns) / divisor
    use = run.memory.use
    figures["peak_allocated_bytes"] = None if use is None else use.peak_allocated_bytes
    return figures
