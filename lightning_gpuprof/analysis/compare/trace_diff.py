"""Differences between two traces: device time, kernels, categories, operators, copies, steps.

Times and counts are compared per step where both traces have step marks, and in total where not.
Names are compared as recorded: a kernel that has another name in a new version of its library
counts as a removed one and an added one.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from lightning_gpuprof.analysis.run.trace_facts import doubts_of
from lightning_gpuprof.analysis.trace.time_split import TimeSplit

SAME_FRAC = 0.01
"""A row's time may differ by this share and count as the same: launches of one kernel on one
device repeat within about a per cent."""

Document = Mapping[str, Any]
_Totals = Mapping[str, tuple[int, int]]
"""Count and time by name."""


class RowDiff(Struct, frozen=True):
    """A kernel, operator or other row of both traces, per step where both mark their steps.

    Args:
        change: "added" or "removed" where a trace lacks the name; else by how the time differs,
            where "same" is a difference within `SAME_FRAC`.
    """

    name: str
    base_count: float
    test_count: float
    base_ns: float
    test_ns: float
    delta_ns: float
    """Test less base."""
    change: Literal["added", "removed", "same", "slower", "faster"]


class TraceDiff(Struct, frozen=True):
    """What changed from a base trace to a test trace; rows with the largest change come first.

    Args:
        per_step: Both traces mark their steps, so that times and counts are per step.
        base_step_ns: The median step; None unless `per_step`.
        gpu: Parts of the first device's time, such as `compute_ns` and `idle_ns`; empty unless
            both traces have device events.
    """

    per_step: bool
    base_steps: int
    test_steps: int
    base_step_ns: int | None
    test_step_ns: int | None
    gpu: tuple[RowDiff, ...]
    categories: tuple[RowDiff, ...]
    kernels: tuple[RowDiff, ...]
    operators: tuple[RowDiff, ...]
    copies: tuple[RowDiff, ...]
    notes: tuple[str, ...]


def compare_traces(base: Document, test: Document) -> TraceDiff:
    """Compare two `analyze` documents."""
    steps = (len(base.get("steps") or ()), len(test.get("steps") or ()))
    per_step = all(steps)
    scale = steps if per_step else (1, 1)
    on_device = bool(base.get("gpu") and test.get("gpu"))

    def rows(
        table: str, *, name: str = "name", time: str = "total_ns", suffix: str = ""
    ) -> tuple[RowDiff, ...]:
        old, new = (
            _totals(document.get(table) or (), name, time, suffix) for document in (base, test)
        )
        return _rows(old, new, scale)

    return TraceDiff(
        per_step=per_step,
        base_steps=steps[0],
        test_steps=steps[1],
        base_step_ns=_median_step_ns(base) if per_step else None,
        test_step_ns=_median_step_ns(test) if per_step else None,
        gpu=_gpu(base["gpu"], test["gpu"], per_step=per_step) if on_device else (),
        categories=rows("categories", name="category"),
        kernels=rows("kernels"),
        operators=rows("operators", time="device_self_ns" if on_device else "self_ns"),
        copies=rows("copies", name="kind", suffix="memory"),
        notes=tuple(_notes(base, test, per_step=per_step)),
    )


def _median_step_ns(document: Document) -> int:
    durations: list[int] = [step["dur_ns"] for step in document["steps"]]
    return round(median(durations))


def _rows(base: _Totals, test: _Totals, steps: tuple[int, int]) -> tuple[RowDiff, ...]:
    rows = []
    for name in {**base, **test}:
        base_count, base_ns = base.get(name, (0, 0))
        test_count, test_ns = test.get(name, (0, 0))
        counts = (base_count / steps[0], test_count / steps[1])
        rows.append(_row(name, *counts, base_ns / steps[0], test_ns / steps[1]))
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta_ns), row.name)))


def _row(
    name: str, base_count: float, test_count: float, base_ns: float, test_ns: float
) -> RowDiff:
    """Return a name's row, with how it changed: by time where both traces have the name."""
    delta_ns = test_ns - base_ns
    change: Literal["added", "removed", "same", "slower", "faster"]
    if not base_count or not test_count:
        change = "removed" if base_count else "added"
    elif abs(delta_ns) <= SAME_FRAC * max(base_ns, test_ns):
        change = "same"
    else:
        change = "slower" if delta_ns > 0 else "faster"
    return RowDiff(name, base_count, test_count, base_ns, test_ns, delta_ns, change)


def _totals(rows: Sequence[Document], name: str, time: str, suffix: str) -> _Totals:
    """Sum up count and time by name; `suffix` is a column to add to the name in brackets."""
    totals: dict[str, tuple[int, int]] = {}
    for row in rows:
        label = f"{row[name]} ({row[suffix]})" if suffix and row.get(suffix) else str(row[name])
        count, total_ns = totals.get(label, (0, 0))
        totals[label] = (count + row["count"], total_ns + (row.get(time) or 0))
    return totals


def _gpu(base: Document, test: Document, *, per_step: bool) -> tuple[RowDiff, ...]:
    """Compare whole steps, or from first to last event where a trace has no step marks."""
    old, new = (gpu if per_step else gpu["first_to_last"] for gpu in (base, test))
    steps = (base["steps"], test["steps"]) if per_step else (1, 1)
    parts = (field.name for field in fields(TimeSplit))
    return tuple(_row(part, 1, 1, old[part] / steps[0], new[part] / steps[1]) for part in parts)


def _notes(base: Document, test: Document, *, per_step: bool) -> Iterable[str]:
    documents = (base, test)
    if not per_step:
        yield (
            "At least one of the traces has no step marks: whole traces are compared, not steps."
        )
    for document in documents:
        yield from doubts_of(document)
    if bool(base.get("gpu")) != bool(test.get("gpu")):
        yield "Only one of the traces has device events."
    if max(len(document.get("gpus", ())) for document in documents) > 1:
        yield ("Device time is that of the first device; kernels and operators are of all devices.")
