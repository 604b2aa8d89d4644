"""Wording that a comparison's text and Markdown share."""

from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.compare.compare import Change, Verdict
from lightning_gpuprof.units import percent, quantity
from lightning_gpuprof.views.documents.compare import RunComparison
from lightning_gpuprof.views.documents.report import Report

MIN_SHARE = 0.005
"""Phases and operators that changed by less than this share of the step are left out."""
MEDIAN_SHARE = 0.05
"""A median that changed by less than this share is left to the table."""
DISTORTS = ("machine", "versions")
DISTURBED = 0.05
"""A run whose training thread waited this share of its time for a core says so."""


def answer(found: RunComparison) -> str:
    """Return the comparison's sentence, whole."""
    result = found.result
    sure = result.verdict in (Verdict.FASTER, Verdict.SLOWER) and not result.other_model
    return f"The new run is {found.sentence}." if sure else f"Result: {found.sentence}."


def counted(report: Report, count: int) -> str:
    """Say how many steps a side has, and of what kind: in a short run all may be warm-up."""
    steps = report.results.steps
    kind = {"steady": "steady ", "all": "warm-up "}.get(steps.basis if steps else "", "")
    return f"{count} {kind}step{'' if count == 1 else 's'}"


def warnings(found: RunComparison) -> Iterator[str]:
    """Yield what the reader should know before the figures are believed."""
    result = found.result
    if found.base.run == found.new.run:
        yield "both are the same run"
    if result.per_sample:
        sizes = [report.results.batch_size for report in (found.base, found.new)]
        yield f"batch sizes differ ({sizes[0]:.4g} and {sizes[1]:.4g}): times are per sample"
    for side, by_device in zip(("base", "new"), result.by_device, strict=True):
        if by_device:
            yield f"{side}: the host was ahead of the device, whose clock its steps are by"
    for side, report in (("base", found.base), ("new", found.new)):
        wait = report.results.core_wait
        if wait is not None and wait.frac >= DISTURBED:
            yield f"{side}: training waited {percent(wait.frac)} of its time for a free core"
    if result.other_model:
        yield "unless your change is what made the models differ, their times say nothing of it"
    distorting = [one for one in result.differs if one.kind in DISTORTS]
    for one in distorting:
        yield f"another {one.name}: {one.base} and {one.new}; the difference may be due to it"
    yield from _median(found)


def settings(found: RunComparison) -> str | None:
    """Say which settings changed; None where none did."""
    changed = [one for one in found.result.differs if one.kind == "settings"]
    if not changed:
        return None
    return "changed: " + ", ".join(f"{one.name} {one.base} -> {one.new}" for one in changed)


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
            f"the median step changed by {share * 100:+.1f}%, but a few very slow steps make the "
            "mean unsure: compare longer runs, on a quiet machine"
        )


def changed(rows: Sequence[Change], least: float) -> list[Change]:
    """Return the figures that changed by so much at least."""
    return [row for row in rows if not least or abs((row.new or 0) - (row.base or 0)) >= least]


def least_ns(found: RunComparison) -> float:
    """Return the change of a phase or operator from which on it is worth a row."""
    return MIN_SHARE * (found.result.steps[0].base or 0.0)


def shown(key: str, value: float | None) -> str:
    """Return one side's figure."""
    return "-" if value is None else quantity(key, value)


def in_percent(row: Change) -> str:
    """Return the change as a share of the base's figure."""
    if row.diff is None or not row.base:
        return ""
    return f"{row.diff / row.base * 100:+.1f}%"


def values(found: RunComparison) -> list[str]:
    """Say of each recorded value whether both runs have the same; empty where none was compared."""
    said = []
    for one in found.result.values:
        if not one.count:
            continue
        state = (
            f"the same in {one.count} steps (largest difference {one.max_diff:.2g})"
            if one.same
            else f"differs from step {one.first_step} on (at most {one.max_diff:.2g})"
        )
        name, last = (f"{one.name} (tensor)", "last norms") if one.of_tensor else (one.name, "last")
        said.append(f"{name}: {state}; {last} {_value(one.last_base)} and {_value(one.last_new)}")
    return said


NO_VALUES = "no step has a recorded loss in both runs: whether they compute the same is unknown"


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
