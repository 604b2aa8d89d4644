"""Phases on two sides: their order, pictures and tables, and what is said of chance."""

from collections.abc import Mapping

from lightning_gpuprof.analysis.compare.bootstrap import Certainty
from lightning_gpuprof.analysis.compare.bootstrap import Interval as TimeInterval
from lightning_gpuprof.analysis.compare.compare import Comparison
from lightning_gpuprof.analysis.compare.phase_changes import PhaseChange
from lightning_gpuprof.report.change_tables import SURE, TOO_FEW, large_changes, large_ns
from lightning_gpuprof.report.document import Column, Interval, Multiple, Multiples, Value
from lightning_gpuprof.report.labels import phase_label

NOISE = {Certainty.NOISE: "within noise", Certainty.TOO_FEW: TOO_FEW}
"""Why a difference shows nothing."""
NOT_IN_BOTH = "not in both"
NOISE_COLUMN = Column(
    "noise", "", "text", note="whether the difference is more than chance explains, 19 times in 20"
)


def ordered_phases(result: Comparison) -> list[PhaseChange]:
    """Return the phases: large changes beyond noise, other large ones, the rest; largest first."""
    large = large_changes(result.phases, result)

    def rank(change: PhaseChange) -> tuple[int, float]:
        unsure = noise_of(change) is not None
        return (int(unsure) if change in large else 2, -abs(change.shift))

    return sorted(result.phases, key=rank)


def noise_of(change: PhaseChange) -> str | None:
    """Say why the difference of a phase or part shows nothing; None if it is more than chance.

    None too for phases between epochs, of which nothing is said.
    """
    if change.base is None or change.new is None:
        return NOT_IN_BOTH
    return None if change.certainty is None else NOISE.get(change.certainty)


def noise_cells(change: PhaseChange) -> Mapping[str, Value]:
    """Return the cells of a row that say whether its difference may be chance."""
    if (noise := noise_of(change)) is not None:
        return {"noise": noise, "state": "neutral"}
    return {"noise": SURE} if change.sure else {}


def phase_multiples(result: Comparison) -> Multiples | None:
    """Return a picture for each phase that takes enough of a step; None if none does."""
    least_ns = large_ns(result)
    multiples = tuple(
        _multiple(change)
        for change in ordered_phases(result)
        if max(change.base or 0.0, change.new or 0.0) >= least_ns
    )
    note = (
        "Each phase has a scale of its own. A line spans where the mean lies 19 times in 20; a "
        "difference that chance may explain is grey."
    )
    return Multiples("phase_multiples", "ns", multiples, note=note) if multiples else None


def _multiple(change: PhaseChange) -> Multiple:
    base, new, diff, _ = change.intervals or (None, None, None, None)
    return Multiple(
        key=change.name,
        label=phase_label(change.name),
        base=change.base,
        new=change.new,
        diff=change.diff,
        diff_frac=change.diff_frac,
        base_interval=_bounds(base),
        new_interval=_bounds(new),
        diff_interval=_bounds(diff),
        noise=noise_of(change),
    )


def _bounds(interval: TimeInterval | None) -> Interval | None:
    return None if interval is None else Interval(interval.low, interval.high)
