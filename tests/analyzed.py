"""Every analysis of a timeline, and its names, for tests."""

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace_analysis import analyze_trace


def analyze_timeline(timeline, window=None):
    return analyze_trace(link(timeline), window)


def timeline_names(timeline, table):
    return [timeline.names[i] for i in table.name.tolist()]
