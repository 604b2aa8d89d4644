"""Analyses of timelines and files, and analyses made by hand, for tests."""

from msgspec import convert, json
from msgspec.structs import fields

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace_analysis import analyze_file, analyze_trace
from lightning_gpuprof.analysis.trace_tables import OrderStatistics, TimeSplit, TraceAnalysis
from lightning_gpuprof.findings.trace_findings import judge_trace


def analyze_timeline(timeline, window=None):
    return analyze_trace(link(timeline), window)


def timeline_names(timeline, table):
    return [timeline.names[i] for i in table.name.tolist()]


def analyzed_values(path, options=None, **part):
    """Analyse a trace file and return the analysis and its findings as plain values."""
    analysis = analyze_file(path, options, **part)
    _, judged = judge_trace(analysis)
    values = json.decode(json.encode(analysis))
    splits = [values["gpu"], *values["gpus"], *(step["gpu"] for step in values["steps"])]
    splits += [split["first_to_last"] for split in splits if split and "first_to_last" in split]
    for split in splits:
        if split is not None:
            split["busy_frac"] = convert(split, TimeSplit).busy_frac
    return {**values, "findings": json.decode(json.encode(judged.findings))}


def devices_of(analysis):
    """Return the time split of each device, the first device's first."""
    return analysis.gpus or ((analysis.gpu,) if analysis.gpu else ())


REQUIRED = {
    "steps": {"name": "", "start_ns": 0, "dur_ns": 0},
    "kernels": {"name": "", "count": 0, "total_ns": 0},
    "categories": {"total_ns": 0},
    "operators": {"total_ns": 0, "self_ns": 0},
    "roofline": {"name": "", "count": 1, "total_ns": 0},
    "idle": {"total_ns": 0},
    "syncs": {"name": "", "blocked_ns": 0},
}
ORDER = dict.fromkeys((field.name for field in fields(OrderStatistics)), 0)
SPLIT = dict.fromkeys((field.name for field in fields(TimeSplit)), 0)


def made_analysis(**tables):
    """Return an analysis of the given tables, where a test gives the columns that it is about."""
    for name, required in REQUIRED.items():
        if name in tables:
            tables[name] = [_located({**required, **row}) for row in tables[name]]
    if tables.get("gpu") is not None:
        tables["gpu"] = {**SPLIT, **tables["gpu"]}
    if "thin_kernels" in tables:
        zeros = {"count": 0, "total_ns": 0, "count_frac": 0}
        tables["thin_kernels"] = {**zeros, **tables["thin_kernels"]}
    launches = tables.get("launches") or {}
    if "overhead" in launches:
        tables["launches"] = {**launches, "overhead": {**ORDER, **launches["overhead"]}}
    return convert(tables, TraceAnalysis)


def _located(row):
    """Return a row whose place, if it has any, has a function too."""
    return {**row, "where": {"function": "f", **row["where"]}} if row.get("where") else row
