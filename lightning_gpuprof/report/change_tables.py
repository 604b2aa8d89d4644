"""Tables of times on two sides: of two runs, or of the steps before a slow-down and during it."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lightning_gpuprof.analysis.compare.bootstrap import Certainty
from lightning_gpuprof.analysis.compare.bootstrap import Interval as TimeInterval
from lightning_gpuprof.analysis.compare.compare import Change, Comparison, PhaseChange
from lightning_gpuprof.report.document import (
    Column,
    Interval,
    Multiple,
    Multiples,
    Value,
)
from lightning_gpuprof.report.labels import phase_label

ChangeType = TypeVar("ChangeType", bound=Change)
MIN_SHARE = 0.005
"""Times that changed by less than this share of the step are not shown at first."""
SURE = "beyond noise"
NOISE = {Certainty.NOISE: "within noise", Certainty.TOO_FEW: "too few steps"}
"""Why a difference shows nothing."""
NOT_IN_BOTH = "not in both"
NOISE_COLUMN = Column(
    "noise", "", "text", note="whether the difference is more than chance explains, 19 times in 20"
)


def change_columns(name: Column, base: Column, new: Column, diff: str) -> tuple[Column, ...]:
    """Return the columns of a table of changes.

    Args:
        name: What changed.
        base: The times of the one side.
        new: The times of the other.
        diff: The key of their difference.
    """
    return (
        name,
        base,
        new,
        Column(diff, "Difference", "ns", bar=True, difference=True),
        Column("diff_frac", "Change", "change_frac"),
    )


def large_changes(changes: Sequence[ChangeType], result: Comparison) -> list[ChangeType]:
    """Return the times that changed by enough of a step to be shown first."""
    least_ns = _least_ns(result)
    return [change for change in changes if abs(change.shift) >= least_ns]


def ordered_phases(result: Comparison) -> list[PhaseChange]:
    """Return the phases, the largest change first; large ones that may be chance come after."""
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
    least_ns = _least_ns(result)
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


def _least_ns(result: Comparison) -> float:
    return MIN_SHARE * (result.steps.mean_ns.base or 0.0)
