"""Every analysis of a timeline, for tests."""

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace_analysis import analyze_trace


def analyze_timeline(timeline, window=None):
    return analyze_trace(link(timeline), window)
