"""Builds the document of a file without a timeline: memory, statistics, or hardware counters."""

import os
from collections.abc import Iterator

from lightning_gpuprof.analysis.kernel_counters import KernelCounters, kernel_counters
from lightning_gpuprof.analysis.memory.memory_dump import (
    MemoryDump,
    analyze_snapshot_file,
    read_jax_memory,
)
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.kernel_category import categorize, kernel_name
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Column,
    Detail,
    Document,
    Figure,
    Figures,
    Section,
    Subject,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.memory_sections import memory_sections
from lightning_gpuprof.traces import memory_snapshot
from lightning_gpuprof.traces.jax import jax_memory
from lightning_gpuprof.traces.sniff import read_head
from lightning_gpuprof.traces.tables import Counter, Tables, open_tables
from lightning_gpuprof.units import percent

FIRST_ROWS = 10
SOURCES = {
    "memory-snapshot": "a snapshot of the CUDA allocator's memory",
    "jax-memory": "JAX's device memory profile",
}
LIMITS = {
    "compute": "compute",
    "memory": "memory",
    "latency": "latency: below 60% of both peaks",
}

ADVICE = {
    "memory": "move fewer bytes. Fuse it with its neighbours (torch.compile), keep values in 16 "
    "bits, and read neighbouring addresses in neighbouring threads.",
    "compute": "compute less or on faster units. Use matrix units (bf16, TF32 or FP8) and library "
    "kernels; what it reads is not the limit.",
    "latency": "give it more to do at a time. Larger batches, one kernel instead of many small "
    "ones, or fewer registers and less shared memory per block where the occupancy is low.",
}
"""What to do about a kernel, by its limit."""


def build_file(path: str, *, first_rows: int = FIRST_ROWS) -> Document | None:
    """Return the document of a file that holds no timeline; None if no reader knows its format.

    `first_rows` is how many rows of each table are shown at first.

    Raises:
        TraceError: The file is damaged.
    """
    if (tables := open_tables(path)) is not None:
        return build_tables(path, tables, first_rows=first_rows)
    head = read_head(path)
    if jax_memory.matches(head):
        return build_memory(path, read_jax_memory(path))
    if not memory_snapshot.matches(head):
        return None
    return build_memory(path, analyze_snapshot_file(path))


def build_memory(path: str, dump: MemoryDump) -> Document:
    """Return the document of a memory snapshot or memory profile."""
    sections = [] if not dump.warnings else [_warnings(dump.warnings)]
    for number, device in enumerate(dump.devices):
        sections += memory_sections(device, number=number)
    if not dump.devices:
        nothing = Text(("The file holds no data about any device.",))
        sections.append(Section("memory", "", "first", (nothing,)))
    subject = _subject(path, dump.source, SOURCES[dump.source])
    return Document(SCHEMA_VERSION, subject, tuple(sections))


def build_tables(path: str, tables: Tables, *, first_rows: int = FIRST_ROWS) -> Document:
    """Return the document of a file of statistics or hardware counters."""
    sections = [] if not tables.warnings else [_warnings(tables.warnings)]
    sections += _statistics(tables, first_rows)
    for other in tables.others:
        sections += _statistics(other, first_rows)
    sections += _counters(tables, first_rows)
    kind = tables.kind if tables.counters else "statistics"
    return Document(
        SCHEMA_VERSION, _subject(path, tables.source, f"{kind} ({tables.source})"), tuple(sections)
    )


def _subject(path: str, source: str, line: str) -> Subject:
    name = os.path.basename(path)
    return Subject(kind="file", name=name, line=line, path=path, facts={"source": source})


def _warnings(warnings: tuple[str, ...]) -> Section:
    return Section("warnings", "", "first", (Text(warnings, "warning"),))


def _statistics(tables: Tables, first_rows: int) -> Iterator[Section]:
    if not tables.stats:
        return
    whole = sum(row.total_ns for row in tables.stats)
    columns = (
        Column("name", "Name", "code"),
        Column("count", "Calls", "count"),
        Column("frac", "Share", "frac"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("mean_ns", "Mean", "ns"),
        Column("min_ns", "Min", "ns"),
        Column("max_ns", "Max", "ns"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "name": row.name,
            "count": row.count,
            "frac": row.total_ns / whole if whole else None,
            "total_ns": row.total_ns,
            "mean_ns": row.mean_ns,
            "min_ns": row.min_ns,
            "max_ns": row.max_ns,
        }
        for row in sorted(tables.stats, key=lambda row: -row.total_ns)
    )
    yield _totals(tables, whole)
    id = f"{tables.kind}_statistics"
    table = Table(id, columns, rows, first_rows=first_rows, sort="total_ns", searchable=True)
    yield Section(id, f"{tables.kind.capitalize()} statistics", "page", (table,))


def _totals(tables: Tables, whole_ns: int) -> Section:
    """Return the time and calls of all rows, and which share is matrix products, or host syncs."""
    count = sum(row.count for row in tables.stats)
    figures = [
        Figure("total_ns", "Time", whole_ns, "ns", "of all rows"),
        Figure("calls_count", "Calls", count, "count"),
        Figure("mean_ns", "Mean", whole_ns / count if count else None, "ns", "per call"),
    ]
    note = f"of the {tables.kind} time of the whole file"
    if tables.kind == "kernel" and whole_ns:
        gemm_ns = sum(row.total_ns for row in tables.stats if categorize(row.name) == "gemm")
        figures.append(Figure("gemm_frac", "Matrix multiplies", gemm_ns / whole_ns, "frac", note))
    elif sync_ns := sum(row.total_ns for row in tables.stats if call_kind(row.name) == "sync"):
        figures.append(Figure("sync_frac", "Host syncs", sync_ns / whole_ns, "frac", note))
    title = f"All {tables.kind} calls"
    body = (Figures(tuple(figures), title=title),)
    return Section(f"{tables.kind}_totals", title, "first", body)


def _counters(tables: Tables, first_rows: int) -> Iterator[Section]:
    if not tables.counters:
        return
    kernels = kernel_counters(tables.counters)
    figures = [row for row in kernels if row.total_ns is not None or _has_share(row)]
    if advice := tuple(_advice(kernels)):
        yield Section("advice", "What limits the kernels", "first", (Text(advice),))
    if figures:
        yield Section("kernels", "Kernels", "page", (_kernels(kernels, first_rows),))
    detail: Detail = "verbose" if figures else "page"
    note = f"{len(tables.counters):,} values"
    values = _values(tables.counters, first_rows)
    yield Section("counters", "Counters", detail, (values,), note)


def _advice(kernels: tuple[KernelCounters, ...]) -> Iterator[str]:
    """Yield what to do about each limit, the one with the longest kernels first."""
    whole_ns = sum(row.total_ns or 0 for row in kernels)
    for limit in dict.fromkeys(row.limit for row in kernels if row.limit is not None):
        rows = [row for row in kernels if row.limit == limit]
        share = f"{len(rows)} of {len(kernels)} kernels"
        if whole_ns:
            share += f", {percent(sum(row.total_ns or 0 for row in rows) / whole_ns)} of the time"
        name = kernel_name(rows[0].name)
        yield f"Limited by {limit} ({share}), first {name}: {ADVICE[limit]}"


def _has_share(row: KernelCounters) -> bool:
    return any(
        share is not None for share in (row.occupancy_frac, row.sm_frac, row.dram_frac, row.limit)
    )


def _kernels(kernels: tuple[KernelCounters, ...], first_rows: int) -> Table:
    columns = (
        Column("name", "Kernel", "code"),
        Column("count", "Launches", "count"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("occupancy_frac", "Occupancy", "frac"),
        Column("sm_frac", "SM", "frac", note="of the peak of computing"),
        Column("dram_frac", "DRAM", "frac", note="of the peak of the device's memory"),
        Column("limit", "Limit", "text"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "id": row.limit,
            "name": row.name,
            "count": row.count,
            "total_ns": row.total_ns,
            "occupancy_frac": row.occupancy_frac,
            "sm_frac": row.sm_frac,
            "dram_frac": row.dram_frac,
            "limit": None if row.limit is None else LIMITS[row.limit],
        }
        for row in kernels
    )
    return Table("kernels", columns, rows, first_rows=first_rows, searchable=True)


def _values(counters: tuple[Counter, ...], first_rows: int) -> Table:
    columns = (
        Column("kernel", "Kernel", "code"),
        Column("name", "Metric", "text"),
        Column("value", "Value", "number"),
        Column("unit", "Unit", "text"),
        Column("section", "Section", "text", detail="verbose"),
        Column("launch", "Launch", "count", detail="verbose"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "kernel": counter.kernel,
            "name": counter.name,
            "value": counter.value,
            "unit": counter.unit or None,
            "section": counter.section or None,
            "launch": counter.launch,
        }
        for counter in counters
    )
    return Table("counters", columns, rows, first_rows=first_rows, searchable=True)
