"""Whose trace it is: the ranks in it, what the program does, and events that were passed over."""

from collections.abc import Iterator

from lightning_gpuprof.analysis.trace_tables import DeviceSplit, TraceAnalysis
from lightning_gpuprof.report.document import Column, Section, Table, Text, Value
from lightning_gpuprof.units import percent

MARKED = "each call of the model is a step"


def origin_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield what is particular about a trace, which the figures below depend on."""
    sentences = tuple(_sentences(analysis))
    if sentences:
        yield Section("origin", "", "first", (Text(sentences, "note"),))


def passed_over_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield the events that were passed over, by kind."""
    if not analysis.passed_over:
        return
    columns = (
        Column("kind", "Kind", "code"),
        Column("count", "Events", "count"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("example", "Longest", "code", keep_end=True),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {"kind": row.kind, "count": row.count, "total_ns": row.total_ns, "example": row.example}
        for row in analysis.passed_over
    )
    note = None if analysis.tool is None else f"Written by {analysis.tool}."
    table = Table("passed_over", columns, rows)
    yield Section("passed_over", "Events passed over", "page", (table,), note)


def _sentences(analysis: TraceAnalysis) -> Iterator[str]:
    ranks = [split for split in analysis.gpus if split.rank]
    if ranks:
        least = min(ranks, key=_busy)
        most = max(ranks, key=_busy)
        yield (
            f"The file joins the traces of {len({split.rank for split in ranks})} ranks, which are "
            "told apart by their processes. Their devices are busy "
            f"{percent(_busy(least))} ({least.rank}) to {percent(_busy(most))} ({most.rank}); "
            f"findings are of {ranks[0].rank}."
        )
    if analysis.purpose == "inference":
        by = f" by {analysis.engine}" if analysis.engine else ""
        steps = f"; {MARKED}" if analysis.steps and not _profiled(analysis) else ""
        yield f"Inference{by}: the trace shows no backward pass and no optimizer{steps}."


def _profiled(analysis: TraceAnalysis) -> bool:
    """Return whether the profiler marked the steps."""
    return any(step.name.startswith("ProfilerStep") for step in analysis.steps)


def _busy(split: DeviceSplit) -> float:
    return split.busy_frac or 0.0
