"""The figures to look at before and after a change, and their wanted directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lightning_gpuprof.analysis.compare.same import ValueCheck
from lightning_gpuprof.analysis.compare.trace_diff import SAME_FRAC
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.question_figures import FIGURES, FigureInputs

Wanted = Literal["lower", "higher", "same"]
_WANTED: dict[str, tuple[str, Wanted]] = {
    "step_ns": ("End-to-end time", "lower"),
    "kernels_per_step_count": ("Kernels per step", "lower"),
    "gemm_frac": ("Matrix products", "higher"),
    "sync_frac": ("Host syncs", "lower"),
    "launch_gaps_frac": ("Launch gaps", "lower"),
    "peak_allocated_bytes": ("Peak memory", "lower"),
}


@dataclass(frozen=True)
class BeforeAfter:
    """A figure that both sides measured, and whether it changed in the wanted direction."""

    name: str
    """The name ends in the unit, unless the program recorded the value."""
    label: str
    wanted: Wanted
    """The wanted direction; `same` for a value that the program recorded."""
    base: float
    new: float
    as_wanted: bool | None
    """None if the figure did not change."""

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
) -> tuple[BeforeAfter, ...]:
    """Return the figures and recorded values that both sides have; times divided by `scale`."""
    old, now = _figures(base, scale[0]), _figures(new, scale[1])
    rows = []
    for name, (label, wanted) in _WANTED.items():
        before, after = old.get(name), now.get(name)
        if before is None or after is None:
            continue
        changed = abs(after - before) > SAME_FRAC * max(before, after)
        as_wanted = (after < before) == (wanted == "lower") if changed else None
        rows.append(BeforeAfter(name, label, wanted, before, after, as_wanted))
    for value in values:
        if value.last_base is not None and value.last_new is not None:
            row = BeforeAfter(
                value.name, value.name, "same", value.last_base, value.last_new, value.same
            )
            rows.append(row)
    return tuple(rows)


def _figures(run: RunResults, divisor: float) -> dict[str, float | None]:
    facts = trace_facts(run)
    inputs = FigureInputs(run, facts, None)
    names = ("gemm_frac", "sync_frac", "launch_gaps_frac")
    figures = {name: FIGURES[name](inputs) for name in names}
    if facts is not None and facts.on_device:
        kernels = sum(row.count for row in facts.analysis.kernels)
        figures["kernels_per_step_count"] = kernels / facts.steps
    figures["step_ns"] = None if run.step_ns is None else run.step_ns / divisor
    use = run.memory.use
    figures["peak_allocated_bytes"] = None if use is None else use.peak_allocated_bytes
    return figures
