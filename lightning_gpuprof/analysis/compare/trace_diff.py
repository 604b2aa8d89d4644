"""Differences between two traces: device time, kernels, categories, operators, copies, steps.

Times and counts are compared per step where both have step marks, and as they are where not. Names
are compared as recorded: a kernel that a new version calls otherwise is one removed and one added.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec.structs

from lightning_gpuprof.analysis.run.trace_facts import doubts_of
from lightning_gpuprof.analysis.trace.time_split import TimeSplit

SAME_FRAC = 0.01
"""A row's time may differ by this share and count as the same: launches of one kernel on one
device repeat within about a per cent."""

Document = Mapping[str, Any]
Row = dict[str, Any]
_Totals = Mapping[str, tuple[int, int]]


def compare_traces(base: Document, test: Document) -> dict[str, Any]:
    """Compare two `analyze` documents, as the document that `compare --json` prints of two traces.

    Rows with the largest change of time come first.
    """
    documents = (base, test)
    steps = (len(base.get("steps") or ()), len(test.get("steps") or ()))
    per_step = all(steps)
    scale = steps if per_step else (1, 1)
    on_device = bool(base.get("gpu") and test.get("gpu"))

    medians = [round(median(s["dur_ns"] for s in one["steps"])) for one in documents if per_step]

    def rows(
        table: str, *, name: str = "name", time: str = "total_ns", suffix: str = ""
    ) -> list[Row]:
        old, new = (_totals(one.get(table) or (), name, time, suffix) for one in documents)
        return _rows(old, new, scale)

    return {
        "per_step": per_step,
        "base_steps": steps[0],
        "test_steps": steps[1],
        "base_step_ns": medians[0] if per_step else None,
        "test_step_ns": medians[1] if per_step else None,
        "gpu": _gpu(base["gpu"], test["gpu"], per_step=per_step) if on_device else [],
        "categories": rows("categories", name="category"),
        "kernels": rows("kernels"),
        "operators": rows("operators", time="device_self_ns" if on_device else "self_ns"),
        "copies": rows("copies", name="kind", suffix="memory"),
        "notes": list(_notes(base, test, per_step=per_step)),
    }


def _rows(base: _Totals, test: _Totals, steps: tuple[int, int]) -> list[Row]:
    none = (0, 0)
    found = []
    for name in {**base, **test}:
        (base_count, base_ns), (test_count, test_ns) = base.get(name, none), test.get(name, none)
        counts = (base_count / steps[0], test_count / steps[1])
        found.append(_row(name, *counts, base_ns / steps[0], test_ns / steps[1]))
    return sorted(found, key=lambda row: (-abs(row["delta_ns"]), row["name"]))


def _row(name: str, base_count: float, test_count: float, base_ns: float, test_ns: float) -> Row:
    """Return one name in both traces, with how it changed: by time where both have it."""
    delta_ns = test_ns - base_ns
    change = "slower" if delta_ns > 0 else "faster"
    if not base_count or not test_count:
        change = "removed" if base_count else "added"
    elif abs(delta_ns) <= SAME_FRAC * max(base_ns, test_ns):
        change = "same"
    return {
        "name": name,
        "base_count": base_count,
        "test_count": test_count,
        "base_ns": base_ns,
        "test_ns": test_ns,
        "delta_ns": delta_ns,
        "change": change,
    }


def _totals(rows: Sequence[Document], name: str, time: str, suffix: str) -> _Totals:
    """Sum up count and time by name, with a column as a suffix in brackets where it is given."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        label = f"{row[name]} ({row[suffix]})" if suffix and row.get(suffix) else str(row[name])
        count, total = found.get(label, (0, 0))
        found[label] = (count + row["count"], total + (row.get(time) or 0))
    return found


def _gpu(base: Document, test: Document, *, per_step: bool) -> list[Row]:
    """Compare whole steps, or where one trace has none, all from first to last event."""
    old, new = (one if per_step else one["first_to_last"] for one in (base, test))
    steps = (base["steps"], test["steps"]) if per_step else (1, 1)
    parts = (field.name for field in msgspec.structs.fields(TimeSplit))
    return [_row(p, 1, 1, old[p] / steps[0], new[p] / steps[1]) for p in parts]


def _notes(base: Document, test: Document, *, per_step: bool) -> Iterable[str]:
    if not per_step:
        yield "One of the traces has no step marks: whole traces are compared, not steps."
    for one in (base, test):
        yield from doubts_of(one)
    if bool(base.get("gpu")) != bool(test.get("gpu")):
        yield "Only one of the traces has device events."
    if max(len(one.get("gpus", ())) for one in (base, test)) > 1:
        yield "Device time is that of the first device; kernels and operators are of all."
