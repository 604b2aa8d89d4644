"""Sections on the analysis of a profiler cycle: operators, kernels and the device's time."""

from msgspec import Struct

from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX
from lightning_gpuprof.report.charts.cycles import CycleState, pick_cycle
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.timeline import layout_beside
from lightning_gpuprof.report.document import Section
from lightning_gpuprof.report.trace.device import device_sections
from lightning_gpuprof.report.trace.listings import operator_sections
from lightning_gpuprof.report.trace_figures import figures_section


class CycleSections(Struct, frozen=True):
    """Sections of a document about one profiler cycle."""

    trace: str | None
    """The cycle's trace file."""
    state: CycleState
    sections: tuple[Section, ...] = ()
    error: str | None = None


def operators_view(run: LoadedRun, query: Query) -> CycleSections:
    """Return the operators and kernels of one cycle."""
    trace, analysis = analysed_cycle(run, query)
    if trace is None or analysis is None:
        return CycleSections(trace, absent_state(trace))
    layout = layout_beside(run, trace)
    listings = operator_sections(analysis, layout.operator_bytes() if layout else None)
    figures = figures_section(analysis)
    sections = (*([figures] if figures is not None else []), *listings)
    return CycleSections(trace, "analysed", sections)


def device_view(run: LoadedRun, query: Query) -> CycleSections:
    """Return one cycle's time split, idle time by cause, syncs and copies."""
    trace, analysis = analysed_cycle(run, query)
    if analysis is None:
        return CycleSections(trace, absent_state(trace))
    return CycleSections(trace, "analysed", tuple(device_sections(analysis)))


def analysed_cycle(run: LoadedRun, query: Query) -> tuple[str | None, TraceAnalysis | None]:
    """Return the trace file that a request names, and the analysis stored beside it."""
    trace = pick_cycle(run, query, ANALYSIS_SUFFIX)
    return trace, None if trace is None else run.analysis(trace)


def absent_state(trace: str | None) -> CycleState:
    """Return the state of a cycle without an analysis."""
    return "no-cycle" if trace is None else "not-analysed"
