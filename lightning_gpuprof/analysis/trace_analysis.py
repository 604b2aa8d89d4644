"""All analyses of one Timeline, in the order in which they build on each other."""

from dataclasses import replace

from msgspec import Struct

from lightning_gpuprof.analysis.roofline.op_time import copied_bytes
from lightning_gpuprof.analysis.roofline.roofline import Roofline, roofline
from lightning_gpuprof.analysis.trace.code_places import (
    CodePlaces,
    PlaceStats,
    code_places,
    device_time_by_place,
)
from lightning_gpuprof.analysis.trace.copies import CopyStats, copy_table
from lightning_gpuprof.analysis.trace.idle import IdleReport, idle_causes
from lightning_gpuprof.analysis.trace.kernels import KernelTable, kernel_table
from lightning_gpuprof.analysis.trace.launches import LaunchStats, launch_stats
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace.operators import OperatorStats, operator_table
from lightning_gpuprof.analysis.trace.quality import TraceQuality, trace_quality
from lightning_gpuprof.analysis.trace.syncs import SyncReport, sync_calls
from lightning_gpuprof.analysis.trace.time_split import TimeSplit, split_time
from lightning_gpuprof.analysis.trace.trace_window import (
    TraceStep,
    Window,
    over_steps,
    queued_before,
    spans_within,
    trace_steps,
    usual_steps,
    within,
)
from lightning_gpuprof.traces.timeline import select


class DeviceReport(Struct, frozen=True):
    """One device of a trace: its time split and what its idle time is due to.

    Both are of `steps` whole steps where the trace marks them, of a window where one is asked for;
    else they reach from the first event to the end of the last, as `first_to_last` always does.
    """

    device: int
    split: TimeSplit
    idle: IdleReport
    first_to_last: TimeSplit
    steps: int


class TraceAnalysis(Struct, frozen=True):
    """Everything that is found out about a trace.

    `devices` is empty on a CPU-only trace;
    `modules` and `lines` are empty where no stacks were read; `roofline` is None where no shapes
    were recorded.
    """

    window: Window | None
    devices: tuple[DeviceReport, ...]
    kernels: KernelTable
    operators: tuple[OperatorStats, ...]
    launches: LaunchStats
    copies: tuple[CopyStats, ...]
    to_bytes: int | None
    syncs: SyncReport
    steps: tuple[TraceStep, ...]
    quality: TraceQuality
    modules: tuple[PlaceStats, ...]
    lines: tuple[PlaceStats, ...]
    roofline: Roofline | None


def analyze_trace(trace: LinkedTrace, window: Window | None = None) -> TraceAnalysis:
    """Run every analysis, on the whole trace or on what was launched in a window of it.

    A window's time split cuts device events at its borders; its tables count what the host
    began in it, and the device events launched by that. Of the whole trace both leave out what
    devices still had queued when it began (`queued_before`); its time split is of whole steps.
    """
    places = code_places(trace.timeline)
    spans = spans_within(trace.timeline, trace.launches, window)
    quality = trace_quality(trace.timeline, trace.launches)
    whole, steps = spans, 0
    if window is None:
        whole = over_steps(trace.timeline, trace.launches, spans)
        steps = int(usual_steps(trace.timeline).sum())
    devices = tuple(
        DeviceReport(
            device=one.device,
            split=split_time(one),
            idle=idle_causes(trace, one, places),
            first_to_last=split_time(events),
            steps=steps,
        )
        for one, events in zip(whole, spans, strict=True)
    )
    if window is not None:
        trace = within(trace, window)
        places = code_places(trace.timeline)
    timeline, launches = trace.timeline, trace.launches
    own = timeline
    if window is None:
        before = queued_before(timeline, launches)
        own = replace(timeline, device=select(timeline.device, ~before))
    return TraceAnalysis(
        window=window,
        devices=devices,
        kernels=kernel_table(own),
        operators=operator_table(trace),
        launches=launch_stats(timeline, launches),
        copies=copy_table(own),
        to_bytes=copied_bytes(timeline),
        syncs=sync_calls(trace, places),
        steps=trace_steps(timeline, spans[0] if spans else None),
        quality=quality,
        modules=_by_place(trace, places, modules=True),
        lines=_by_place(trace, places, modules=False),
        roofline=_roofline(trace, window),
    )


def _roofline(trace: LinkedTrace, window: Window | None) -> Roofline | None:
    if not len(trace.timeline.device) or not len(trace.timeline.arguments):
        return None
    span_ns = window.end_ns - window.start_ns if window else None
    return roofline(trace, span_ns=span_ns)


def _by_place(
    trace: LinkedTrace, places: CodePlaces | None, *, modules: bool
) -> tuple[PlaceStats, ...]:
    if places is None:
        return ()
    rows = places.module if modules else places.frame
    return device_time_by_place(trace.timeline, trace.launches, rows, modules=modules)
