"""Differences between two traces: device time, kernels, categories, operators, copies, steps.

Times and counts are compared per step if both traces have step marks, and in total otherwise.
Names are compared as recorded: a kernel that has another name in a new version of its library
counts as a removed one and an added one.
"""

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Literal

from msgspec import Struct
from msgspec.structs import fields

from lightning_gpuprof.analysis.trace_tables import CopyRow, DeviceSplit, TimeSplit, TraceAnalysis

SAME_FRAC = 0.01
"""Times that differ by less than this share count as the same: the times of one kernel on one
device vary by about a per cent."""

_Totals = Mapping[str, tuple[int, int]]
"""Count and time of rows, by name."""


class RowDiff(Struct, frozen=True):
    """A kernel, operator or other row of both traces, per step where both mark their steps.

    Args:
        change: "added" or "removed" if one trace lacks the name, else how the time differs;
            "same" is a difference within `SAME_FRAC`.
    """

    name: str
    base_count: float
    test_count: float
    base_ns: float
    test_ns: float
    delta_ns: float
    """Test minus base."""
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


def compare_traces(base: TraceAnalysis, test: TraceAnalysis) -> TraceDiff:
    """Compare the analyses of two traces."""
    steps = (len(base.steps), len(test.steps))
    per_step = all(steps)
    scale = steps if per_step else (1, 1)
    on_device = base.gpu is not None and test.gpu is not None

    def compared(totals: Callable[[TraceAnalysis], _Totals]) -> tuple[RowDiff, ...]:
        return _rows(totals(base), totals(test), scale)

    return TraceDiff(
        per_step=per_step,
        base_steps=steps[0],
        test_steps=steps[1],
        base_step_ns=_median_step_ns(base) if per_step else None,
        test_step_ns=_median_step_ns(test) if per_step else None,
        gpu=_gpu(base.gpu, test.gpu, per_step=per_step) if base.gpu and test.gpu else (),
        categories=compared(_category_totals),
        kernels=compared(_kernel_totals),
        operators=compared(_device_operator_totals if on_device else _host_operator_totals),
        copies=compared(_copy_totals),
        notes=tuple(_notes(base, test, per_step=per_step)),
    )


def _median_step_ns(analysis: TraceAnalysis) -> int:
    return round(median(step.dur_ns for step in analysis.steps))


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
    """Return a name's row, with how it changed: by its time if both traces have the name."""
    delta_ns = test_ns - base_ns
    change: Literal["added", "removed", "same", "slower", "faster"]
    if not base_count or not test_count:
        change = "removed" if base_count else "added"
    elif abs(delta_ns) <= SAME_FRAC * max(base_ns, test_ns):
        change = "same"
    else:
        change = "slower" if delta_ns > 0 else "faster"
    return RowDiff(name, base_count, test_count, base_ns, test_ns, delta_ns, change)


def _category_totals(analysis: TraceAnalysis) -> _Totals:
    return _totals((row.category, row.count, row.total_ns) for row in analysis.categories)


def _kernel_totals(analysis: TraceAnalysis) -> _Totals:
    return _totals((row.name, row.count, row.total_ns) for row in analysis.kernels)


def _device_operator_totals(analysis: TraceAnalysis) -> _Totals:
    return _totals((row.name, row.count, row.device_self_ns or 0) for row in analysis.operators)


def _host_operator_totals(analysis: TraceAnalysis) -> _Totals:
    return _totals((row.name, row.count, row.self_ns) for row in analysis.operators)


def _copy_totals(analysis: TraceAnalysis) -> _Totals:
    return _totals((_copy_label(row), row.count, row.total_ns) for row in analysis.copies)


def _copy_label(row: CopyRow) -> str:
    return f"{row.kind} ({row.memory})" if row.memory else row.kind


def _totals(rows: Iterable[tuple[str, int, int]]) -> _Totals:
    """Sum up count and time by name."""
    totals: dict[str, tuple[int, int]] = {}
    for name, count, time_ns in rows:
        counted, total_ns = totals.get(name, (0, 0))
        totals[name] = (counted + count, total_ns + time_ns)
    return totals


def _gpu(base: DeviceSplit, test: DeviceSplit, *, per_step: bool) -> tuple[RowDiff, ...]:
    """Compare whole steps, or from first to last event if a trace has no step marks."""
    old = base if per_step else base.first_to_last or base
    new = test if per_step else test.first_to_last or test
    steps = (base.steps, test.steps) if per_step else (1, 1)
    parts = [field.name for field in fields(TimeSplit)]
    return tuple(
        _row(part, 1, 1, getattr(old, part) / steps[0], getattr(new, part) / steps[1])
        for part in parts
    )


def _notes(base: TraceAnalysis, test: TraceAnalysis, *, per_step: bool) -> Iterable[str]:
    analyses = (base, test)
    if not per_step:
        yield (
            "At least one of the traces has no step marks: whole traces are compared, not steps."
        )
    for analysis in analyses:
        yield from analysis.doubts
    if (base.gpu is None) != (test.gpu is None):
        yield "Only one of the traces has device events."
    if max(len(analysis.gpus) for analysis in analyses) > 1:
        yield ("Device time is that of the first device; kernels and operators are of all devices.")
