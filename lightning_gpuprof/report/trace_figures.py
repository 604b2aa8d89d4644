"""Single figures of a trace: kernels and conversions per step, launches, shares of the time."""

from collections.abc import Iterator

from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.findings.question_figures import FIGURES, FigureInputs
from lightning_gpuprof.findings.trace_findings import as_run
from lightning_gpuprof.report.document import Figure, Figures, Section

SHARES = (
    (
        "launch_gaps_frac",
        "Launch gaps",
        "in which the device runs nothing, from one kernel to the next",
    ),
    ("launch_overhead_frac", "Launch overhead", "the part of the gaps that launching takes"),
)
"""Parts of the first device's span, which questions use as well."""


def figures_section(analysis: TraceAnalysis) -> Section | None:
    """Return the single figures of a trace; None if none of them was measured."""
    figures = tuple(trace_figures(analysis))
    return Section("trace_figures", "The trace", "page", (Figures(figures),)) if figures else None


def trace_figures(analysis: TraceAnalysis) -> Iterator[Figure]:
    """Yield the figures of a trace that were measured."""
    if analysis.gpu is not None:
        note = f"of the {_whole(analysis, 'profiled steps')}: any kernel, copy or fill"
        yield Figure("busy_frac", "Device busy", analysis.gpu.busy_frac, "frac", note)
    if analysis.kernels:
        kernels = sum(row.count for row in analysis.kernels)
        steps, note = analysis.distinct_steps, "per step" if analysis.distinct_steps else "in all"
        if any(split.rank for split in analysis.gpus) and steps:
            steps, note = len(analysis.steps), "per step of a rank"
        per_step = kernels / max(1, steps)
        yield Figure("kernels_per_step_count", "Kernels", round(per_step), "count", note)
    if analysis.gemm_frac is not None:
        note = "of kernel time"
        yield Figure("gemm_frac", "Matrix multiplies", analysis.gemm_frac, "frac", note)
    if analysis.tensor_core_frac is not None:
        note = "of multiply, convolution and attention kernels whose names show it"
        yield Figure("tensor_core_frac", "On tensor cores", analysis.tensor_core_frac, "frac", note)
    yield from _occupancy(analysis)
    if analysis.gpu is not None and analysis.sync_frac is not None:
        note = f"of the {_whole(analysis, 'steps')}, in which the host waits for the device"
        yield Figure("sync_frac", "Host syncs", analysis.sync_frac, "frac", note)
    yield from _shares(analysis)
    yield from conversion_figures(analysis)
    yield from _launches(analysis)


def _occupancy(analysis: TraceAnalysis) -> Iterator[Figure]:
    occupancy = analysis.occupancy
    if occupancy is None or occupancy.occupancy_frac is None:
        return
    blocks, warps = occupancy.blocks_per_sm or 0.0, occupancy.warps_per_sm or 0.0
    note = (
        f"of the warps that fit, over kernel time; {blocks:.1f} blocks and {warps:.1f} warps "
        "launched per SM"
    )
    yield Figure("occupancy_frac", "Occupancy", occupancy.occupancy_frac, "frac", note)


def _shares(analysis: TraceAnalysis) -> Iterator[Figure]:
    """Yield the shares of the first device's span in gaps and in copies."""
    gpu = analysis.gpu
    if gpu is None or not gpu.span_ns:
        return
    run, whole = as_run(analysis), _whole(analysis, "steps")
    inputs = FigureInputs(run, trace_facts(run), None)
    for key, label, note in SHARES:
        if (frac := FIGURES[key](inputs)) is not None:
            yield Figure(key, label, frac, "frac", f"of the {whole}, {note}")
    note = f"of the {whole}, in which the device does nothing but copy"
    copies_frac = gpu.exposed_copy_ns / gpu.span_ns
    yield Figure("exposed_copies_frac", "Exposed copies", copies_frac, "frac", note)


def conversion_figures(analysis: TraceAnalysis) -> Iterator[Figure]:
    """Yield how often `.to()` and `.cuda()` are called, and what they copy; nothing if never."""
    calls = {row.name: row.count for row in analysis.operators}
    if not calls.get("aten::to"):
        return
    steps = analysis.distinct_steps
    per = max(1, steps)
    per_step = " per step" if steps else ""
    note = f"calls{per_step}; {calls.get('aten::_to_copy', 0) / per:,.4g} of them copy"
    yield Figure("to_count", ".to() and .cuda()", calls["aten::to"] / per, "count", note)
    if analysis.to_bytes is not None:
        of_what = "per step" if steps else "whole trace"
        yield Figure("to_bytes", "What these copy", analysis.to_bytes / per, "bytes", of_what)


def _launches(analysis: TraceAnalysis) -> Iterator[Figure]:
    launches, short = analysis.launches, analysis.thin_kernels
    if launches is not None and launches.overhead is not None:
        note = f"median of {launches.count:,} launches"
        yield Figure("launch_ns", "Launch call", launches.overhead.median_ns, "ns", note)
    if launches is not None and launches.delay is not None:
        note = "median; long means that the device is behind the host"
        yield Figure("launch_to_start_ns", "Launch to start", launches.delay.median_ns, "ns", note)
    if short is not None:
        note = f"of the number of kernels; below 10 µs: {short.count:,}"
        yield Figure("short_kernel_frac", "Short kernels", short.count_frac, "frac", note)
        note = "all kernels below 10 µs in the whole trace"
        yield Figure("short_kernels_ns", "Short kernels, together", short.total_ns, "ns", note)


def _whole(analysis: TraceAnalysis, steps: str) -> str:
    """Name what figures are shares of: `steps`, or the trace if it has no marked steps."""
    return steps if analysis.steps else "whole trace"
