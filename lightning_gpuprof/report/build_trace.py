"""Builds the document of a trace: `analyze`, and the tab's page of a folder of traces alone."""

import os
from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.findings.trace_findings import judge_trace
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Chart,
    Document,
    Figure,
    Figures,
    Section,
    Subject,
    Text,
    Verdict,
)
from lightning_gpuprof.report.finding_cards import finding_card
from lightning_gpuprof.report.run.changes import BY_SAVING
from lightning_gpuprof.report.run.traced import MEMORY_TITLE, operator_memory_table
from lightning_gpuprof.report.trace.answer import answer_sections
from lightning_gpuprof.report.trace.device import (
    copy_sections,
    device_figures_section,
    idle_sections,
    sync_sections,
    time_sections,
    warning_sections,
)
from lightning_gpuprof.report.trace.listings import (
    NARROW,
    Layout,
    category_sections,
    operator_sections,
)
from lightning_gpuprof.report.trace.origin import origin_sections, passed_over_sections
from lightning_gpuprof.report.trace.rest import (
    call_sections,
    launch_sections,
    metric_sections,
    path_sections,
    quality_section,
    roofline_sections,
)
from lightning_gpuprof.report.trace_figures import figures_section

FIRST_ROWS = 10


NOT_ANALYSED = Verdict(
    "not_measured",
    "Verdict",
    "No trace is analysed yet",
    "A separate process does that, and the figures follow here; Operators says so if it failed.",
)


def trace_document(
    analysis: TraceAnalysis,
    *,
    first_rows: int = FIRST_ROWS,
    name: str = "",
    notices: Sequence[str] = (),
) -> Document:
    """Return the document of a trace, with the findings in it.

    Args:
        analysis: The analysis of the whole trace, or of a window of it.
        first_rows: How many rows of each table are shown at first.
        name: What the trace is called; by default its file's name.
        notices: Remarks to begin with, in sentences.
    """
    run, judged = judge_trace(analysis)
    window = f", {analysis.window.name}" if analysis.window is not None else ""
    written = f"a Chrome trace of {analysis.tool}" if analysis.tool else analysis.source
    facts = {"source": analysis.source, "analysis_version": analysis.analysis_version}
    subject = Subject(
        kind="trace",
        name=name or os.path.basename(analysis.file),
        line=f"{written}{window}",
        path=analysis.file or None,
        facts=facts,
    )
    sections = [*_sections(analysis, run, judged.findings, first_rows)]
    if notices:
        sections.insert(0, Section("notices", "", "first", (Text(tuple(notices), "note"),)))
    return Document(SCHEMA_VERSION, subject, tuple(sections))


def unanalysed_document(name: str) -> Document:
    """Return the document of a folder of traces none of which is analysed yet."""
    subject = Subject(kind="trace", name=name, line="profiler traces, not analysed yet")
    verdict = Section("verdict", "", "first", (NOT_ANALYSED,))
    return Document(SCHEMA_VERSION, subject, (verdict,))


def _sections(
    analysis: TraceAnalysis, run: RunResults, findings: tuple[Finding, ...], first_rows: int
) -> Iterator[Section]:
    *limit, verdict = answer_sections(analysis, run, findings)
    yield from limit
    if run.steps is not None and run.step_ns:
        yield _headline(analysis, run)
    yield verdict
    yield from origin_sections(analysis)
    yield from warning_sections(analysis)
    if findings:
        cards = tuple(finding_card(finding, run) for finding in findings)
        note = BY_SAVING if len(cards) > 1 else None
        yield Section("findings", "What holds it back", "first", cards, note=note)
    yield from time_sections(analysis)
    yield from _devices(analysis)
    if (figures := figures_section(analysis)) is not None:
        yield figures
    yield from idle_sections(analysis, first_rows)
    yield from copy_sections(analysis)
    yield from category_sections(analysis)
    yield from metric_sections(analysis, first_rows)
    yield from operator_sections(analysis, layout=Layout(first_rows, NARROW))
    if (memory := operator_memory_table(analysis)) is not None:
        yield Section("operator_memory", MEMORY_TITLE, "page", (memory,))
    yield from sync_sections(analysis, first_rows)
    yield from path_sections(analysis, first_rows)
    yield from call_sections(analysis, first_rows)
    if (times := device_figures_section(analysis)) is not None:
        yield times
    yield from launch_sections(analysis)
    yield from roofline_sections(analysis)
    yield from passed_over_sections(analysis)
    yield quality_section(analysis)
    if analysis.gpu is not None:
        yield Section("timeline", "Timeline", "verbose", (Chart("timeline", "Timeline"),))


def _headline(analysis: TraceAnalysis, run: RunResults) -> Section:
    assert run.steps is not None
    count = run.steps.dur.count
    note = "1 step" if count == 1 else f"mean of {count:,} steps"
    figures = [Figure("step_ns", "Step time", run.step_ns, "ns", note)]
    if analysis.gpu is not None and not analysis.doubts:
        figures.append(Figure("gpu_busy_frac", "GPU busy", analysis.gpu.busy_frac, "frac"))
    return Section("headline", "", "first", (Figures(tuple(figures), large=True),))


def _devices(analysis: TraceAnalysis) -> Iterator[Section]:
    device = analysis.device
    if device is None:
        return
    name = device.name or "model not recorded"
    figures = (
        Figure("device", "device", name, "text", device.vendor),
        Figure("devices_count", "devices with events", device.count, "count"),
    )
    yield Section("device", "Device", "page", (Figures(figures),))
