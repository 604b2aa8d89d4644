"""Builds the document of two trace files: what changed from the first to the second."""

import os
from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.compare.trace_diff import RowDiff, TraceDiff, compare_traces
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.findings.before_after import before_after
from lightning_gpuprof.findings.trace_findings import as_run
from lightning_gpuprof.report.build_comparison import before_after_table
from lightning_gpuprof.report.change_tables import change_columns
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Column,
    Document,
    Figure,
    Figures,
    Section,
    Subject,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.labels import event_label

FIRST_ROWS = 10
DEVICE_PARTS = {
    "span_ns": "Span",
    "busy_ns": "Busy",
    "idle_ns": "Idle",
    "compute_ns": "Compute",
    "comm_ns": "Communication",
    "copy_ns": "Copies",
    "exposed_comm_ns": "Communication not hidden",
    "exposed_copy_ns": "Copies not hidden",
}


def build_trace_diff(base: TraceAnalysis, test: TraceAnalysis) -> Document:
    """Return the document of two traces; it gives no verdict, for they hold too few steps."""
    diff = compare_traces(base, test)
    subject = Subject(
        kind="comparison",
        name=f"{os.path.basename(test.file)} against {os.path.basename(base.file)}",
        line="two trace files, which hold too few steps for a verdict",
    )
    sections = tuple(_sections(base, test, diff))
    return Document(SCHEMA_VERSION, subject, sections)


def _sections(base: TraceAnalysis, test: TraceAnalysis, diff: TraceDiff) -> Iterator[Section]:
    figures = [
        Figure("base", "base", base.file, "code"),
        Figure("new", "new", test.file, "code"),
        Figure("per_step", "times per step", diff.per_step, "flag"),
    ]
    if diff.per_step:
        for key, label, steps, step_ns in (
            ("base", "base", diff.base_steps, diff.base_step_ns),
            ("new", "new", diff.test_steps, diff.test_step_ns),
        ):
            note = "1 step" if steps == 1 else f"{steps:,} steps"
            figures.append(Figure(f"{key}_step_ns", f"median step, {label}", step_ns, "ns", note))
    yield Section("traces", "", "first", (Figures(tuple(figures)),))
    if diff.notes:
        yield Section("warnings", "", "first", (Text(diff.notes, "warning"),))
    # If only one trace marks its steps, a step would be compared with a whole trace.
    if bool(base.steps) == bool(test.steps):
        if compared := before_after(as_run(base), as_run(test)):
            note = "figures that both traces have, and the goal of each"
            table = before_after_table(compared)
            yield Section("before_after", "Before and after", "first", (table,), note=note)
    yield from _changes("device_time", "Device", diff.gpu, diff)
    yield from _changes("categories", "Kernels by kind", diff.categories, diff)
    yield from _changes("kernels", "Kernels", diff.kernels, diff)
    yield from _changes("operators", "Operators", diff.operators, diff)
    yield from _changes("copies", "Copies", diff.copies, diff)


def _changes(id: str, title: str, changes: Sequence[RowDiff], diff: TraceDiff) -> Iterator[Section]:
    """Yield a table of what changed, the largest change first and what is the same last."""
    if not changes:
        return
    name = Column("name", "Name", "text" if id in ("device_time", "categories") else "code")
    base, new = Column("base_ns", "Base", "ns"), Column("new_ns", "New", "ns")
    columns = (
        *change_columns(name, base, new, "diff_ns"),
        Column("change", "", "text"),
        Column("base_count", "Base, calls", "count", detail="verbose"),
        Column("new_count", "New, calls", "count", detail="verbose"),
    )
    ordered = sorted(changes, key=lambda change: change.change == "same")
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "id": change.name,
            "name": _name(id, change.name),
            "base_ns": change.base_ns,
            "new_ns": change.test_ns,
            "diff_ns": change.delta_ns,
            "diff_frac": change.delta_ns / change.base_ns if change.base_ns else None,
            "change": change.change,
            "base_count": change.base_count,
            "new_count": change.test_count,
        }
        for change in ordered
    )
    changed = sum(change.change != "same" for change in changes)
    first = min(FIRST_ROWS, changed)
    table = Table(id, columns, rows, first_rows=first or 1)
    note = "time per step" if diff.per_step else "time"
    yield Section(id, title, "page" if changed else "verbose", (table,), note=note)


def _name(id: str, name: str) -> str:
    if id == "device_time":
        return DEVICE_PARTS.get(name, name)
    if id == "categories":
        return event_label(f"kernel_{name}")
    return kernel_name(name) if id == "kernels" else name
