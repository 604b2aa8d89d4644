"""Tables of times on two sides: of two runs, or of the steps before a slow-down and during it."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lightning_gpuprof.analysis.compare.bootstrap import Certainty
from lightning_gpuprof.analysis.compare.change import Change
from lightning_gpuprof.analysis.compare.compare import Comparison
from lightning_gpuprof.analysis.compare.traced_changes import TracedChange
from lightning_gpuprof.report.document import Column, Value

ChangeType = TypeVar("ChangeType", bound=Change)
MIN_SHARE = 0.005
"""Times that changed by less than this share of the step are not shown at first."""
SURE, TOO_FEW = "beyond noise", "too few steps"
ONLY_COLUMN = Column(
    "only", "", "text", note="which run alone has it, or whether the steps show it"
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
    least_ns = large_ns(result)
    return [change for change in changes if abs(change.shift) >= least_ns]


def large_ns(result: Comparison) -> float:
    """Return how long a time must be to be shown first."""
    return MIN_SHARE * (result.steps.mean_ns.base or 0.0)


def only_cells(change: TracedChange) -> Mapping[str, Value]:
    """Return the cells of a row that say which run alone has it, or whether steps show it."""
    if change.base is None or change.new is None:
        return {"only": "added" if change.base is None else "removed"}
    if change.certainty is Certainty.TOO_FEW:
        return {"only": TOO_FEW, "state": "neutral"}
    return {} if change.certainty is None else {"only": SURE}
