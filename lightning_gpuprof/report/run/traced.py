"""Sections from the analysed traces of a run: operators, kernels and the trace files."""

from collections.abc import Iterator, Sequence

import msgspec

from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.analysis.trace_tables import KernelRow, OperatorRow, TraceAnalysis
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.report.document import Column, Figure, Figures, Section, Table, Text, Value
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.report.trace_figures import trace_figures
from lightning_gpuprof.units import duration

MOST_ROWS = 20
MEMORY_TITLE = "Memory by operator"
FIRST_ROWS = 8
KERNEL_FIGURES = (
    "kernels_per_step_count",
    "gemm_frac",
    "occupancy_frac",
    "sync_frac",
    "launch_gaps_frac",
    "launch_overhead_frac",
    "exposed_copies_frac",
)


def traced_sections(run: RunResults) -> Iterator[Section]:
    """Yield the operators and kernels of each analysed trace of this rank, the longest first."""
    traces = [
        (trace, trace.analysis)
        for trace in run.traces
        if trace.rank == run.start.rank and trace.analysis is not None
    ]
    for number, (trace, analysis) in enumerate(traces):
        cycle = trace.cycle
        window = f"cycle {cycle.cycle}" if cycle.capture is None else f"capture {cycle.capture}"
        note = f"{window}, sums over steps {cycle.first_step} to {cycle.last_step}"
        suffix = "" if number == 0 else f"_{cycle.cycle}"
        if (operators := _operators(analysis, suffix)) is not None:
            by = "device self time" if operators.sort == "device_self_ns" else "self time"
            yield Section(
                f"operators{suffix}", "Top operators", "page", (operators,), note=f"{note}, by {by}"
            )
        if (memory := operator_memory_table(analysis, suffix)) is not None:
            yield Section(f"operator_memory{suffix}", MEMORY_TITLE, "page", (memory,), note=note)
        if (kernels := _kernels(analysis, suffix)) is not None:
            figures = Figures(tuple(_kernel_figures(analysis)))
            yield Section(f"kernels{suffix}", "Top kernels", "page", (figures, kernels), note=note)


def _kernel_figures(analysis: TraceAnalysis) -> Iterator[Figure]:
    """Yield the figures of a trace that help to read its kernels, without their notes."""
    for figure in trace_figures(analysis):
        if figure.key in KERNEL_FIGURES:
            yield msgspec.structs.replace(figure, note=None)


def operator_memory_table(analysis: TraceAnalysis, suffix: str = "") -> Table | None:
    """Return memory by operator; None where the profiler did not record memory."""
    if not analysis.operator_memory:
        return None
    columns = (
        Column("name", "Operator", "code"),
        Column("memory", "Memory", "text"),
        Column("allocated_bytes", "Allocated", "bytes", bar=True),
        Column("freed_bytes", "Freed", "bytes"),
        Column("self_bytes", "Self", "bytes", note="allocated less freed, without other operators"),
        Column("count", "Calls", "count", note="allocations and releases"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "name": row.name or "outside of operators",
            "memory": "host" if row.device is None else f"device {row.device}",
            "allocated_bytes": row.allocated_bytes,
            "freed_bytes": row.freed_bytes,
            "self_bytes": row.self_bytes,
            "count": row.count,
        }
        for row in analysis.operator_memory[:MOST_ROWS]
    )
    return Table(f"operator_memory{suffix}", columns, rows, first_rows=FIRST_ROWS)


def _operators(analysis: TraceAnalysis, suffix: str) -> Table | None:
    device = any(operator.device_self_ns for operator in analysis.operators)
    key = "device_self_ns" if device else "self_ns"
    ranked = sorted(
        analysis.operators,
        key=lambda row: row.device_self_ns or 0 if device else row.self_ns,
        reverse=True,
    )
    columns = (
        Column("name", "Operator", "code"),
        *([Column("device_self_ns", "Device self", "ns", bar=True)] if device else []),
        Column("self_ns", "Host self", "ns", bar=not device),
        Column("total_ns", "Time", "ns"),
        Column("count", "Calls", "count"),
    )
    rows = tuple(_row(operator, columns) for operator in ranked[:MOST_ROWS])
    if not rows:
        return None
    return Table(
        f"operators{suffix}", columns, rows, first_rows=FIRST_ROWS, sort=key, opens="operators"
    )


def _kernels(analysis: TraceAnalysis, suffix: str) -> Table | None:
    columns = (
        Column("name", "Kernel", "code"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("frac", "Share", "frac"),
        Column("count", "Calls", "count"),
        Column("occupancy_frac", "Occupancy", "frac"),
    )
    rows = tuple(
        {**_row(kernel, columns), "name": kernel_name(kernel.name)}
        for kernel in analysis.kernels[:MOST_ROWS]
    )
    if not rows:
        return None
    return Table(
        f"kernels{suffix}", columns, rows, first_rows=FIRST_ROWS, sort="total_ns", opens="operators"
    )


def _row(measured: OperatorRow | KernelRow, columns: Sequence[Column]) -> dict[str, Value]:
    values = {column.key: getattr(measured, column.key) for column in columns}
    return {key: value for key, value in values.items() if value is not None}


def trace_files_section(run: RunResults) -> Section | None:
    """Return the trace file of each finished profiler cycle; None if there is none."""
    if not run.traces:
        return None
    rows: list[dict[str, Value]] = [
        {
            "file": trace.cycle.trace_file,
            "rank": trace.rank,
            "cycle": trace.cycle.cycle,
            "first_step": trace.cycle.first_step,
            "last_step": trace.cycle.last_step,
            "trace_bytes": trace.cycle.trace_bytes,
            "stop_ns": trace.cycle.stop_ns,
            "export_ns": trace.cycle.export_ns,
            "analysed": trace.analysis is not None,
            "older": trace.analysis is not None and trace.analysis.is_older,
            "others": others_in(trace, on_gpu=run.on_gpu),
        }
        for trace in run.traces
    ]
    columns = (
        Column("file", "File", "code"),
        Column("rank", "Rank", "count"),
        Column("cycle", "Cycle", "count"),
        Column("first_step", "From", "count"),
        Column("last_step", "To", "count"),
        Column("trace_bytes", "Size", "bytes"),
        Column("stop_ns", "Stop", "ns"),
        Column("export_ns", "Export", "ns"),
        Column("analysed", "Analysed", "flag"),
        Column("older", "Older", "flag", note="analysed by an older version"),
        Column("others", "Beside the steps", "text"),
    )
    warnings = [
        warning
        for trace in run.traces
        for warning in (trace.analysis.warnings if trace.analysis else ())
    ]
    table = Table("trace_files", columns, tuple(rows), opens="traces")
    parts = (table, Text(tuple(dict.fromkeys(warnings)), "note")) if warnings else (table,)
    return Section("trace_files", "Trace files", "verbose", parts)


def others_in(trace: TraceView, *, on_gpu: bool) -> str | None:
    """Name the other work between the profiled steps that the trace leaves out, or holds.

    None if there was no other work. On a GPU, the profiler is not paused during most callbacks.
    """
    others = trace.others_ns
    left_in = {Phase.CALLBACKS} if on_gpu else set()
    out = {phase for phase in others if trace.cycle.quiet} - left_in
    texts = []
    for how, phases in (("without", out), ("also with", others.keys() - out)):
        named = [
            f"{phase_label(phase.value).lower()} {duration(ns)}"
            for phase, ns in others.items()
            if phase in phases
        ]
        if named:
            texts.append(f"{how} {', '.join(named)}")
    return "; ".join(texts) or None


def operator_rates_section(run: RunResults) -> Section | None:
    """Return what calls of operators take on the CPU, by their inputs, and what is normal there."""
    facts = trace_facts(run)
    if facts is None or not facts.analysis.host_calls:
        return None
    rows = []
    for row in facts.analysis.host_calls[:MOST_ROWS]:
        times = run.operator_times.get(row.call.key)
        work, num_bytes = row.flop_count, row.num_bytes
        values: dict[str, Value] = {
            "name": row.call.name,
            "inputs": " ".join(str(list(shape)) for shape in row.call.dims if shape),
            "phase": phase_label(Phase(row.phase)),
            "count": row.count,
            "call_ns": row.fastest_ns,
            "total_ns": row.total_ns,
            "gflop_per_s": work / row.fastest_ns if work and row.fastest_ns else None,
            "bytes_per_s": 1e9 * num_bytes / row.fastest_ns
            if num_bytes and row.fastest_ns
            else None,
            "normal_ns": times.normal_ns if times else None,
        }
        rows.append({key: value for key, value in values.items() if value is not None})
    columns = (
        Column("name", "Operator", "code"),
        Column("inputs", "Inputs", "code"),
        Column("phase", "Phase", "text"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("count", "Calls", "count"),
        Column("call_ns", "A call", "ns"),
        Column("gflop_per_s", "GFLOP/s", "number"),
        Column("bytes_per_s", "Bytes/s", "bytes_per_s"),
        Column(
            "normal_ns", "Normal", "ns", note="on this machine; timed for calls that may be slow"
        ),
    )
    table = Table("operator_rates", columns, tuple(rows), first_rows=FIRST_ROWS, sort="total_ns")
    return Section(
        "operator_rates",
        "Operators by their inputs",
        "verbose",
        (table,),
        note="of each place in the step, the fastest call of the profiled steps",
    )
