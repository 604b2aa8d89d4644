"""What changed between two traces: device time, kernels, categories, operators, copies and steps.

Traces seldom hold the same number of steps, so times and counts are compared per step where both
have step marks, and as they are where not. Names are compared as recorded: a kernel that a new
version of a library calls otherwise is one removed and one added; the categories and operators
tell whether that was a change of time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median

import msgspec.structs

from lightning_gpuprof.analysis.trace.time_split import TimeSplit
from lightning_gpuprof.analysis.trace_analysis import TraceAnalysis

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


_Totals = Mapping[str, tuple[int, int]]


def compare_traces(base: TraceAnalysis, test: TraceAnalysis) -> TraceDiff:
    """Compare two analysed traces."""
    steps = (len(base.steps), len(test.steps))
    per_step = all(steps)
    scale = steps if per_step else (1, 1)
    on_device = bool(base.devices and test.devices)
    return TraceDiff(
        per_step=per_step,
        base_steps=steps[0],
        test_steps=steps[1],
        step_ns=_step_medians(base, test) if per_step else None,
        gpu=_gpu(base, test, scale) if on_device else (),
        categories=_rows(_categories(base), _categories(test), scale),
        kernels=_rows(_kernels(base), _kernels(test), scale),
        operators=_rows(
            _operators(base, device=on_device), _operators(test, device=on_device), scale
        ),
        copies=_rows(_copies(base), _copies(test), scale),
        notes=tuple(_notes(base, test, per_step=per_step)),
    )


def _rows(base: _Totals, test: _Totals, steps: tuple[int, int]) -> tuple[DiffRow, ...]:
    rows = [
        DiffRow(
            name,
            base.get(name, (0, 0))[0] / steps[0],
            test.get(name, (0, 0))[0] / steps[1],
            base.get(name, (0, 0))[1] / steps[0],
            test.get(name, (0, 0))[1] / steps[1],
        )
        for name in {**base, **test}
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta_ns), row.name)))


def _summed(entries: Iterable[tuple[str, int, int]]) -> _Totals:
    found: dict[str, tuple[int, int]] = {}
    for name, count, total in entries:
        before = found.get(name, (0, 0))
        found[name] = (before[0] + count, before[1] + total)
    return found


def _kernels(trace: TraceAnalysis) -> _Totals:
    return _summed((row.name, row.count, row.total_ns) for row in trace.kernels.kernels)


def _categories(trace: TraceAnalysis) -> _Totals:
    return _summed((row.category, row.count, row.total_ns) for row in trace.kernels.categories)


def _copies(trace: TraceAnalysis) -> _Totals:
    return _summed(
        (f"{row.kind} ({row.memory})" if row.memory else row.kind, row.count, row.total_ns)
        for row in trace.copies
    )


def _operators(trace: TraceAnalysis, *, device: bool) -> _Totals:
    return _summed(
        (row.name, row.count, (row.device_self_ns or 0) if device else row.self_ns)
        for row in trace.operators
    )


def _gpu(base: TraceAnalysis, test: TraceAnalysis, steps: tuple[int, int]) -> tuple[DiffRow, ...]:
    splits = [trace.devices[0].split for trace in (base, test)]
    return tuple(
        DiffRow(
            part.name,
            1,
            1,
            getattr(splits[0], part.name) / steps[0],
            getattr(splits[1], part.name) / steps[1],
        )
        for part in msgspec.structs.fields(TimeSplit)
    )


def _step_medians(base: TraceAnalysis, test: TraceAnalysis) -> tuple[int, int]:
    first, second = (round(median(s.dur_ns for s in t.steps)) for t in (base, test))
    return first, second


def _notes(base: TraceAnalysis, test: TraceAnalysis, *, per_step: bool) -> Iterable[str]:
    if not per_step:
        yield "One of the traces has no step marks: whole traces are compared, not steps."
    if bool(base.devices) != bool(test.devices):
        yield "Only one of the traces has device events."
    if max(len(base.devices), len(test.devices)) > 1:
        yield "Device time is that of the first device; kernels and operators are of all."
