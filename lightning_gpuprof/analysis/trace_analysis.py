"""All analyses of one trace, in the order in which they build on each other."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from msgspec.structs import asdict

from lightning_gpuprof.analysis.critical_path.critical_path import critical_path
from lightning_gpuprof.analysis.roofline.host_calls import host_calls
from lightning_gpuprof.analysis.roofline.op_time import copied_bytes
from lightning_gpuprof.analysis.roofline.roofline import roofline
from lightning_gpuprof.analysis.trace.code_places import (
    CodePlaces,
    code_places,
    device_time_by_place,
)
from lightning_gpuprof.analysis.trace.copies import copy_table
from lightning_gpuprof.analysis.trace.idle import IdleReport, idle_causes
from lightning_gpuprof.analysis.trace.kernels import kernel_table
from lightning_gpuprof.analysis.trace.launches import host_ranges, launch_stats
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, link
from lightning_gpuprof.analysis.trace.operator_memory import operator_memory
from lightning_gpuprof.analysis.trace.operators import operator_table
from lightning_gpuprof.analysis.trace.purpose import (
    compiled,
    engine_of,
    purpose_of,
    unrecorded_device,
)
from lightning_gpuprof.analysis.trace.quality import trace_quality
from lightning_gpuprof.analysis.trace.syncs import sync_calls
from lightning_gpuprof.analysis.trace.time_split import DeviceSpans, split_time
from lightning_gpuprof.analysis.trace.trace_window import (
    over_steps,
    queued_before,
    spans_within,
    steady_window,
    step_window,
    trace_steps,
    usual_marks,
    within,
)
from lightning_gpuprof.analysis.trace_tables import (
    ANALYSIS_VERSION,
    CriticalPathSummary,
    DeviceSplit,
    MetricRow,
    PassedOver,
    PlaceRow,
    RooflineRow,
    Roofs,
    StepRow,
    TraceAnalysis,
    TraceDevice,
    TraceWindow,
)
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import Timeline, select

MOST_THREADS = 1_000
"""The critical path takes time and memory for what each thread did in each of its intervals."""


def analyze_file(
    path: str,
    options: ReadOptions | None = None,
    *,
    step: int | None = None,
    steady: bool = False,
) -> TraceAnalysis:
    """Read a trace file of any supported kind and analyse it.

    Args:
        path: The file.
        options: What to read of it.
        step: Analyse this step alone, by the number that the profiler gave it.
        steady: Analyse all marked steps but the first.
    """
    timeline = open_timeline(path, replace(options or ReadOptions(), memory=True))
    window = steady_window(timeline) if steady else None
    if step is not None:
        window = step_window(timeline, step)
    return analyze_trace(link(timeline), window, file=path)


def analyze_trace(
    trace: LinkedTrace, window: TraceWindow | None = None, *, file: str = ""
) -> TraceAnalysis:
    """Run every analysis, on the whole trace or on the work that was launched in a window of it.

    In a window, the time split cuts device events at its borders; the tables count what the host
    began in the window, and the device events that this work launched. On the whole trace, both
    leave out what devices still had queued when it began (`queued_before`), and the time split is
    of whole steps.
    """
    whole = trace
    places = code_places(trace.timeline)
    spans = spans_within(trace.timeline, trace.launches, window)
    gpus, idle = _devices(trace, spans, window, places)
    if window is not None:
        trace = within(trace, window)
        places = code_places(trace.timeline)
    timeline, launches = trace.timeline, trace.launches
    own = timeline
    if window is None:
        before = queued_before(timeline, launches)
        if before.any():
            own = replace(timeline, device=select(timeline.device, ~before))
    kernels = kernel_table(own)
    syncs = sync_calls(trace, places)
    steps = trace_steps(timeline, trace.launches, spans)
    operators, roofs = _roofline(trace, window)
    quality = trace_quality(whole.timeline, whole.launches)
    path, no_path = _critical_path(whole, window)
    return TraceAnalysis(
        analysis_version=ANALYSIS_VERSION,
        source=timeline.source,
        file=file,
        window=window,
        tool=timeline.tool,
        purpose=purpose_of(whole.timeline),
        engine=engine_of(whole.timeline),
        compiled=compiled(whole.timeline),
        unrecorded_device=None if gpus else unrecorded_device(whole.timeline),
        passed_over=tuple(PassedOver(**vars(kind)) for kind in timeline.passed_over),
        quality=quality,
        device=_device(timeline, len(gpus)),
        gpu=gpus[0] if gpus else None,
        gpus=gpus if len(gpus) > 1 else (),
        idle=idle.causes if idle else (),
        idle_functions=idle.functions if idle else (),
        gaps=idle.longest if idle else (),
        kernels=kernels.kernels,
        categories=kernels.categories,
        thin_kernels=kernels.short,
        tensor_core_frac=kernels.tensor_core_frac,
        occupancy=kernels.occupancy,
        gpu_metrics=tuple(MetricRow(**vars(metric)) for metric in timeline.metrics),
        operators=operator_table(trace),
        operator_memory=operator_memory(trace, window),
        ranges=host_ranges(whole.timeline, window),
        launches=launch_stats(timeline, launches),
        copies=copy_table(own),
        to_bytes=copied_bytes(timeline),
        sync_kinds=syncs.kinds,
        syncs=syncs.calls,
        sync_count=syncs.count,
        sync_ns=syncs.total_ns,
        sync_frac=syncs.frac,
        upload_wait_ns=syncs.upload_ns,
        modules=_by_place(trace, places, modules=True),
        lines=_by_place(trace, places, modules=False),
        gemm_frac=kernels.gemm_frac,
        steps=steps,
        roofline=operators,
        roofs=roofs,
        host_calls=host_calls(trace, places),
        critical_path=path,
        warnings=(
            *quality.doubts,
            *timeline.warnings,
            *quality.notes,
            *_distorted(steps),
            *no_path,
        ),
    )


def _devices(
    trace: LinkedTrace,
    spans: list[DeviceSpans],
    window: TraceWindow | None,
    places: CodePlaces | None,
) -> tuple[tuple[DeviceSplit, ...], IdleReport | None]:
    """Return every device's time, and the idle time of the first; None where there is no device."""
    counted, steps = spans, [0] * len(spans)
    if window is None:
        counted = over_steps(trace.timeline, trace.launches, spans)
        steps = [usual_marks(trace, device.device) for device in spans]
    rank_of = {device.id: device.rank for device in trace.timeline.devices}
    reports = [idle_causes(trace, device, places) for device in counted]
    splits = tuple(
        DeviceSplit(
            **asdict(split_time(device)),
            device=device.device,
            rank=rank_of.get(device.device),
            steps=count,
            idle=report.causes,
            first_to_last=split_time(events),
        )
        for device, events, report, count in zip(counted, spans, reports, steps, strict=True)
    )
    return splits, next(iter(reports), None)


def _device(timeline: Timeline, used: int) -> TraceDevice | None:
    """Describe the devices that ran something; None on a CPU-only trace."""
    if not used:
        return None
    first = next(iter(timeline.devices), None)
    return TraceDevice(
        name=first.name if first else None, vendor=first.vendor if first else None, count=used
    )


def _roofline(
    trace: LinkedTrace, window: TraceWindow | None
) -> tuple[tuple[RooflineRow, ...], Roofs | None]:
    if not len(trace.timeline.device) or not len(trace.timeline.arguments):
        return (), None
    span_ns = window.end_ns - window.start_ns if window else None
    result = roofline(trace, span_ns=span_ns)
    return result.rows, result.roofs


def _critical_path(
    trace: LinkedTrace, window: TraceWindow | None
) -> tuple[CriticalPathSummary | None, tuple[str, ...]]:
    """Return the critical path in the window, and a warning if it was not computed."""
    if len(trace.timeline.threads) > MOST_THREADS:
        return None, (f"No critical path: more than {MOST_THREADS:,} threads.",)
    path = critical_path(trace)
    if path is not None and window is not None:
        path = path.within(window.start_ns, window.end_ns)
    return path.summary() if path is not None else None, ()


def _distorted(steps: tuple[StepRow, ...]) -> Iterator[str]:
    distorted = [step for step in steps if step.distorted]
    if distorted:
        usual_ns = median(step.dur_ns for step in steps if not step.distorted)
        times = distorted[0].dur_ns / max(1, usual_ns)
        yield (
            f"{distorted[0].name} takes {times:.2g} times as long as usual steps: the profiler "
            "distorts it, or it does more than they do; the device's time is without it."
        )


def _by_place(
    trace: LinkedTrace, places: CodePlaces | None, *, modules: bool
) -> tuple[PlaceRow, ...]:
    if places is None:
        return ()
    rows = places.module if modules else places.frame
    return device_time_by_place(trace.timeline, trace.launches, rows, modules=modules)
