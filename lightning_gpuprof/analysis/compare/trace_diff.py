"""Differences between two traces: device time, kernels, categories, operators, copies, steps.

Times and counts are compared per step where both have step marks, and as they are where not. Names
are compared as recorded: a kernel that a new version calls otherwise is one removed and one added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

import msgspec.structs

from lightning_gpuprof.analysis.run.trace_facts import doubts_of
from lightning_gpuprof.analysis.trace.time_split import TimeSplit

SAME_FRAC = 0.01
"""A row's time may differ by this share and count as the same: launches of one kernel on one
device repeat within about a per cent."""


class ChangeKind(str, Enum):
    """How a row changed from the base to the other trace."""

    ADDED = "added"
    REMOVED = "removed"
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"


@dataclass(frozen=True)
class DiffRow:
    """One name in both traces; counts and times are per step where `TraceDiff.per_step`."""

    name: str
    base_count: float
    test_count: float
    base_ns: float
    test_ns: float

    @property
    def delta_ns(self) -> float:
        """Time that the other trace takes more."""
        return self.test_ns - self.base_ns

    @property
    def change(self) -> ChangeKind:
        """How the row changed; by time where both traces have it."""
        if not self.base_count:
            return ChangeKind.ADDED
        if not self.test_count:
            return ChangeKind.REMOVED
        if abs(self.delta_ns) <= SAME_FRAC * max(self.base_ns, self.test_ns):
            return ChangeKind.SAME
        return ChangeKind.SLOWER if self.delta_ns > 0 else ChangeKind.FASTER


@dataclass(frozen=True)
class TraceDiff:
    """Two traces side by side; rows with the largest change of time first."""

    per_step: bool
    base_steps: int
    test_steps: int
    step_ns: tuple[int, int] | None
    gpu: tuple[DiffRow, ...]
    categories: tuple[DiffRow, ...]
    kernels: tuple[DiffRow, ...]
    operators: tuple[DiffRow, ...]
    copies: tuple[DiffRow, ...]
    notes: tuple[str, ...] = ()


Document = Mapping[str, Any]
_Totals = Mapping[str, tuple[int, int]]


def compare_traces(base: Document, test: Document) -> TraceDiff:
    """Compare two `analyze` documents."""
    documents = (base, test)
    steps = (len(base.get("steps") or ()), len(test.get("steps") or ()))
    per_step = all(steps)
    scale = steps if per_step else (1, 1)
    on_device = bool(base.get("gpu") and test.get("gpu"))

    medians = [round(median(s["dur_ns"] for s in one["steps"])) for one in documents if per_step]

    def rows(
        table: str, *, name: str = "name", time: str = "total_ns", suffix: str = ""
    ) -> tuple[DiffRow, ...]:
        old, new = (_totals(one.get(table) or (), name, time, suffix) for one in documents)
        return _rows(old, new, scale)

    return TraceDiff(
        per_step=per_step,
        base_steps=steps[0],
        test_steps=steps[1],
        step_ns=(medians[0], medians[1]) if per_step else None,
        gpu=_gpu(base["gpu"], test["gpu"], per_step=per_step) if on_device else (),
        categories=rows("categories", name="category"),
        kernels=rows("kernels"),
        operators=rows("operators", time="device_self_ns" if on_device else "self_ns"),
        copies=rows("copies", name="kind", suffix="memory"),
        notes=tuple(_notes(base, test, per_step=per_step)),
    )


def _rows(base: _Totals, test: _Totals, steps: tuple[int, int]) -> tuple[DiffRow, ...]:
    none = (0, 0)
    found = []
    for name in {**base, **test}:
        (base_count, base_ns), (test_count, test_ns) = base.get(name, none), test.get(name, none)
        counts = (base_count / steps[0], test_count / steps[1])
        found.append(DiffRow(name, *counts, base_ns / steps[0], test_ns / steps[1]))
    return tuple(sorted(found, key=lambda row: (-abs(row.delta_ns), row.name)))


def _totals(rows: Sequence[Document], name: str, time: str, suffix: str) -> _Totals:
    """Sum up count and time by name, with a column as a suffix in brackets where it is given."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        label = f"{row[name]} ({row[suffix]})" if suffix and row.get(suffix) else str(row[name])
        count, total = found.get(label, (0, 0))
        found[label] = (count + row["count"], total + (row.get(time) or 0))
    return found


def _gpu(base: Document, test: Document, *, per_step: bool) -> tuple[DiffRow, ...]:
    """Compare whole steps, or where one trace has none, all from first to last event."""
    old, new = (one if per_step else one["first_to_last"] for one in (base, test))
    steps = (base["steps"], test["steps"]) if per_step else (1, 1)
    parts = (field.name for field in msgspec.structs.fields(TimeSplit))
    return tuple(DiffRow(p, 1, 1, old[p] / steps[0], new[p] / steps[1]) for p in parts)


def _notes(base: Document, test: Document, *, per_step: bool) -> Iterable[str]:
    if not per_step:
        yield "One of the traces has no step marks: whole traces are compared, not steps."
    for one in (base, test):
        yield from doubts_of(one)
    if bool(base.get("gpu")) != bool(test.get("gpu")):
        yield "Only one of the traces has device events."
    if max(len(one.get("gpus", ())) for one in (base, test)) > 1:
        yield "Device time is that of the first device; kernels and operators are of all."
