"""A comparison as text for a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lightning_gpuprof.analysis.compare.compare import Change, Verdict
from lightning_gpuprof.analysis.trace.kernel_names import kernel_name
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.units import quantity, shortened
from lightning_gpuprof.views.documents.compare import RunComparison
from lightning_gpuprof.views.documents.report import Report

TOP = 8
MIN_SHARE = 0.005
"""Phases and operators that changed by less than this share of the step are left out."""
MEDIAN_SHARE = 0.05
"""A median that changed by less than this share is left to the table."""
DISTORTS = ("machine", "versions")


def render_comparison(found: RunComparison) -> str:
    """Return the comparison as lines."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: RunComparison) -> Iterator[str]:
    result = found.result
    yield f"base  {found.base.run} ({_counted(found.base, result.base_steps)})"
    yield f"new   {found.new.run} ({_counted(found.new, result.new_steps)})"
    yield ""
    sure = result.verdict in (Verdict.FASTER, Verdict.SLOWER) and not result.other_model
    yield f"The new run is {found.sentence}." if sure else f"Result: {found.sentence}."
    yield from _warnings(found)
    yield from _median(found)
    unit = "per sample" if result.per_sample else "per step"
    step = result.steps[0].base or 0.0
    yield from _table(f"STEP ({unit})", result.steps, 0.0)
    clock = ", host clock" if any(result.by_device) else ""
    yield from _table(f"PHASES (mean {unit}{clock})", result.phases, MIN_SHARE * step, unit="_ns")
    yield from _traced("OPERATORS, own time", result.operators, found, MIN_SHARE * step)
    kernels = [replace(row, name=kernel_name(row.name)) for row in result.kernels]
    yield from _traced("KERNELS", kernels, found, MIN_SHARE * step)
    yield from _table("MEMORY", result.memory, 0.0)
    yield from _findings("FINDINGS GONE", found.gone)
    yield from _findings("FINDINGS NEW", found.appeared)
    yield from _values(found)


def _counted(report: Report, count: int) -> str:
    """Say how many steps a side has, and of what kind: in a short run all may be warm-up."""
    steps = report.results.steps
    kind = {"steady": "steady ", "all": "warm-up "}.get(steps.basis if steps else "", "")
    return f"{count} {kind}step{'' if count == 1 else 's'}"


def _warnings(found: RunComparison) -> Iterator[str]:
    result = found.result
    if found.base.run == found.new.run:
        yield "! both are the same run"
    if result.per_sample:
        sizes = [report.results.batch_size for report in (found.base, found.new)]
        yield f"! batch sizes differ ({sizes[0]:.4g} and {sizes[1]:.4g}): times are per sample"
    for side, by_device in zip(("base", "new"), result.by_device, strict=True):
        if by_device:
            yield f"! {side}: the host was ahead of the device, whose clock its steps are by"
    if result.other_model:
        yield "! unless your change is what made the models differ, their times say nothing of it"
    distorting = [one for one in result.differs if one.kind in DISTORTS]
    for one in distorting:
        yield f"! another {one.name}: {one.base} and {one.new}; the difference may be due to it"
    settings = [one for one in result.differs if one.kind == "settings"]
    if settings:
        changed = ", ".join(f"{one.name} {one.base} -> {one.new}" for one in settings)
        yield f"  changed: {changed}"


def _median(found: RunComparison) -> Iterator[str]:
    """Say so where the mean shows nothing though the ordinary step changed."""
    result = found.result
    median = next((one for one in result.steps if one.name == "p50_ns"), None)
    if result.verdict is not Verdict.NO_DIFFERENCE or result.change is None or median is None:
        return
    if median.diff is None or not median.base:
        return
    share, change = median.diff / median.base, result.change
    # Steps that vary alike leave the mean no such doubt: a few that are far slower do.
    if abs(share) >= MEDIAN_SHARE and change.high - change.low > abs(share):
        yield (
            f"! the median step changed by {share * 100:+.1f}%, but a few very slow steps make the "
            "mean unsure: compare longer runs, on a quiet machine"
        )


def _table(title: str, rows: Sequence[Change], least: float, *, unit: str = "") -> Iterator[str]:
    kept = [row for row in rows if not least or abs((row.new or 0) - (row.base or 0)) >= least]
    if not kept:
        return
    yield f"\n{title}"
    yield f"  {'':<34}{'base':>12}{'new':>12}{'change':>10}"
    for row in kept:
        name = row.name if unit else row.name.removesuffix("_ns").removesuffix("_bytes")
        key = unit or row.name
        sides = [_shown(key, value) for value in (row.base, row.new)]
        yield f"  {shortened(name, 32):<34}{sides[0]:>12}{sides[1]:>12}{_percent(row):>10}"


def _traced(
    title: str, rows: Sequence[Change], found: RunComparison, least: float
) -> Iterator[str]:
    """Yield what is known of a few profiled steps only, and say so."""
    result = found.result
    if result.traced_steps is None:
        return
    steps = " and ".join(str(count) for count in result.traced_steps)
    of = f"per {'sample' if result.per_sample else 'step'}, of {steps} profiled steps"
    large = [row for row in rows if abs((row.new or 0) - (row.base or 0)) >= least]
    shown = [row for row in large if row.shown]
    yield from _table(f"{title} ({of})", shown[:TOP], least, unit="_ns")
    if len(shown) < len(large):
        yield (
            f"\n  {len(large) - len(shown)} differences of {title.split(',')[0].lower()} are less "
            f"than {steps} profiled steps can show"
        )


def _shown(key: str, value: float | None) -> str:
    return "-" if value is None else quantity(key, value)


def _percent(row: Change) -> str:
    if row.diff is None or not row.base:
        return ""
    return f"{row.diff / row.base * 100:+.1f}%"


def _findings(title: str, findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield f"\n{title}"
    for finding in findings:
        yield f"  [{finding.severity.value}] {finding.id}: {finding.title}"


def _values(found: RunComparison) -> Iterator[str]:
    compared = [one for one in found.result.values if one.count]
    if not compared:
        yield "\nVALUES"
        yield (
            "  no step has a recorded loss in both runs: whether they compute the same is unknown"
        )
        return
    yield f"\nVALUES (within {found.tolerance:g})"
    for one in compared:
        state = (
            f"the same in {one.count} steps (largest difference {one.max_diff:.2g})"
            if one.same
            else f"differs from step {one.first_step} on (at most {one.max_diff:.2g})"
        )
        name, last = (f"{one.name} (tensor)", "last norms") if one.of_tensor else (one.name, "last")
        yield f"  {name}: {state}; {last} {_value(one.last_base)} and {_value(one.last_new)}"


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
