"""What the analysed traces of a run say: operators, kernels, and the trace files themselves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.report.document import Column, Section, Table, Text, Value
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.units import duration
from lightning_gpuprof.views.documents.finding_payload import is_older
from lightning_gpuprof.views.documents.gpu_words import kernel_facts

MOST_ROWS = 20
FIRST_ROWS = 8


def traced_sections(run: RunResults) -> Iterator[Section]:
    """Yield the operators and kernels of each analysed trace of this rank, the longest first."""
    traces = [trace for trace in run.traces if trace.rank == run.start.rank and trace.analysis]
    for number, trace in enumerate(traces):
        cycle, analysis = trace.cycle, trace.analysis or {}
        note = f"cycle {cycle.cycle}, sums over steps {cycle.first_step} to {cycle.last_step}"
        suffix = "" if number == 0 else f"_{cycle.cycle}"
        if (operators := _operators(analysis, suffix)) is not None:
            by = "device self time" if operators.sort == "device_self_ns" else "self time"
            yield Section(
                f"operators{suffix}", "Top operators", "page", (operators,), note=f"{note}, by {by}"
            )
        if (kernels := _kernels(analysis, suffix)) is not None:
            facts = Text((", ".join(kernel_facts(analysis)),))
            yield Section(f"kernels{suffix}", "Top kernels", "page", (facts, kernels), note=note)


def _operators(analysis: Mapping[str, Any], suffix: str) -> Table | None:
    operators: Sequence[Mapping[str, Any]] = analysis.get("operators") or ()
    device = any(operator.get("device_self_ns") for operator in operators)
    key = "device_self_ns" if device else "self_ns"
    ranked = sorted(operators, key=lambda operator: -(operator.get(key) or 0))[:MOST_ROWS]
    columns = (
        Column("name", "Operator", "code"),
        *([Column("device_self_ns", "Device self", "ns", bar=True)] if device else []),
        Column("self_ns", "Host self", "ns", bar=not device),
        Column("total_ns", "Time", "ns"),
        Column("count", "Calls", "count"),
    )
    rows = tuple(_row(operator, columns) for operator in ranked)
    if not rows:
        return None
    return Table(
        f"operators{suffix}", columns, rows, first_rows=FIRST_ROWS, sort=key, opens="operators"
    )


def _kernels(analysis: Mapping[str, Any], suffix: str) -> Table | None:
    kernels: Sequence[Mapping[str, Any]] = analysis.get("kernels") or ()
    columns = (
        Column("name", "Kernel", "code"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("frac", "Share", "frac"),
        Column("count", "Calls", "count"),
        Column("occupancy_frac", "Occupancy", "frac"),
    )
    rows = tuple(
        {**_row(kernel, columns), "name": kernel_name(kernel["name"])}
        for kernel in kernels[:MOST_ROWS]
    )
    if not rows:
        return None
    return Table(
        f"kernels{suffix}", columns, rows, first_rows=FIRST_ROWS, sort="total_ns", opens="operators"
    )


def _row(measured: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Value]:
    keys = (column.key for column in columns)
    return {key: measured[key] for key in keys if measured.get(key) is not None}


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
            "older": trace.analysis is not None and is_older(trace.analysis),
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
        str(warning)
        for trace in run.traces
        for warning in (trace.analysis or {}).get("warnings") or ()
    ]
    table = Table("trace_files", columns, tuple(rows), opens="traces")
    parts = (table, Text(tuple(dict.fromkeys(warnings)), "note")) if warnings else (table,)
    return Section("trace_files", "Trace files", "verbose", parts)


def others_in(trace: TraceView, *, on_gpu: bool) -> str | None:
    """Say which other work of the profiled time a trace leaves out or holds; None if there is none.

    On a GPU most callbacks are not paused for.
    """
    others = trace.others_ns
    left_in = {Phase.CALLBACKS} if on_gpu else set()
    out = {phase for phase in others if trace.cycle.quiet} - left_in
    texts = []
    for how, phases in (("without", out), ("in it also", others.keys() - out)):
        named = [
            f"{phase_label(phase.value).lower()} {duration(ns)}"
            for phase, ns in others.items()
            if phase in phases
        ]
        if named:
            texts.append(f"{how} {', '.join(named)}")
    return "; ".join(texts) or None
