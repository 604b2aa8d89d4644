"""The figures to look at before and after a change, and which way each should go."""

from collections.abc import Iterator, Sequence
from typing import Any

from lightning_gpuprof.analysis.compare.same import ValueCheck
from lightning_gpuprof.analysis.compare.trace_diff import SAME_FRAC
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.question_figures import FIGURES, FigureInputs

LOWER, HIGHER, SAME = "lower", "higher", "same"
_ROWS = {
    "step_ns": ("end-to-end time", LOWER),
    "kernels_per_step_count": ("kernels per step", LOWER),
    "gemm_frac": ("matrix products", HIGHER),
    "sync_frac": ("host syncs", LOWER),
    "launch_gaps_frac": ("launch gaps", LOWER),
    "peak_allocated_bytes": ("peak memory", LOWER),
}


def before_after(
    base: RunResults,
    new: RunResults,
    values: Sequence[ValueCheck] = (),
    *,
    scale: Sequence[float] = (1.0, 1.0),
) -> Iterator[dict[str, Any]]:
    """Yield the figures that both sides measured; times are divided by `scale`.

    `as_wanted` tells whether a figure went the way that is `wanted`; None where it did not change.
    """
    sides = [_figures(run, by) for run, by in zip((base, new), scale, strict=True)]
    for name, (label, wanted) in _ROWS.items():
        before, after = (side.get(name) for side in sides)
        if before is not None and after is not None:
            changed = abs(after - before) > SAME_FRAC * max(before, after)
            right = (after < before) == (wanted == LOWER)
            yield _row(name, label, wanted, before, after, right if changed else None)
    for one in values:
        if one.last_base is not None and one.last_new is not None:
            yield _row(one.name, one.name, SAME, one.last_base, one.last_new, one.same)


def _figures(run: RunResults, by: float) -> dict[str, float | None]:
    facts = trace_facts(run)
    seen = FigureInputs(run, facts, None)
    figures = {name: FIGURES[name](seen) for name in ("gemm_frac", "sync_frac", "launch_gaps_frac")}
    if facts is not None and facts.on_device:
        kernels = sum(row["count"] for row in facts.rows("kernels"))
        figures["kernels_per_step_count"] = kernels / facts.steps
    figures["step_ns"] = run.step_ns
    figures["peak_allocated_bytes"] = (
        run.memory.use.peak_allocated_bytes if run.memory.use else None
    )
    return {n: one / by if one and n.endswith("_ns") else one for n, one in figures.items()}


def _row(
    name: str, label: str, wanted: str, base: float, new: float, as_wanted: bool | None
) -> dict[str, Any]:
    row = {"name": name, "label": label, "wanted": wanted, "base": base, "new": new}
    return {**row, "diff": new - base, "as_wanted": as_wanted}
