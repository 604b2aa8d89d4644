"""All analyses of one Timeline, in the order in which they build on each other."""

from typing import TYPE_CHECKING

from msgspec import Struct

from lightning_gpuprof.analysis.trace.code_places import (
    CodePlaces,
    PlaceStats,
    code_places,
    device_time_by_place,
)
from lightning_gpuprof.analysis.trace.copies import CopyStats, copy_table
from lightning_gpuprof.analysis.trace.idle import IdleReport, idle_causes
from lightning_gpuprof.analysis.trace.kernels import KernelTable, kernel_table
from lightning_gpuprof.analysis.trace.launch_join import Launches, join_launches
from lightning_gpuprof.analysis.trace.launches import LaunchStats, launch_stats
from lightning_gpuprof.analysis.trace.nesting import Nesting, nest
from lightning_gpuprof.analysis.trace.operators import OperatorStats, operator_table
from lightning_gpuprof.analysis.trace.quality import TraceQuality, trace_quality
from lightning_gpuprof.analysis.trace.syncs import SyncReport, sync_calls
from lightning_gpuprof.analysis.trace.time_split import TimeSplit, cut, device_spans, split_time
from lightning_gpuprof.analysis.trace.trace_steps import TraceStep, trace_steps
from lightning_gpuprof.analysis.trace.trace_window import Window, within
from lightning_gpuprof.traces.timeline import Timeline

if TYPE_CHECKING:
    from lightning_gpuprof.analysis.roofline.roofline import Roofline


class DeviceReport(Struct, frozen=True):
    """One device of a trace: its time split and what its idle time is due to."""

    device: int
    split: TimeSplit
    idle: IdleReport


class TraceAnalysis(Struct, frozen=True):
    """Everything that is found out about a trace.

    `devices` is empty on a CPU-only trace, `modules` and `lines` where no stacks were read;
    `roofline` is None where no shapes were recorded.
    """

    window: Window | None
    devices: tuple[DeviceReport, ...]
    kernels: KernelTable
    operators: tuple[OperatorStats, ...]
    launches: LaunchStats
    copies: tuple[CopyStats, ...]
    syncs: SyncReport
    steps: tuple[TraceStep, ...]
    quality: TraceQuality
    modules: tuple[PlaceStats, ...]
    lines: tuple[PlaceStats, ...]
    roofline: "Roofline | None"


def analyze_timeline(
    timeline: Timeline,
    window: Window | None = None,
    *,
    nesting: Nesting | None = None,
    launches: Launches | None = None,
) -> TraceAnalysis:
    """Run every analysis, on the whole trace or on what was launched in a window of it.

    A window's time split cuts device events at its borders; its tables count what the host
    began in it, and the device events launched by that. `nesting` and `launches` are those of the
    whole trace, where a caller has them.
    """
    nesting = nesting or nest(timeline.host)
    launches = launches or join_launches(timeline)
    places = code_places(timeline)
    spans = device_spans(timeline)
    quality = trace_quality(timeline, launches)
    if window is not None:
        spans = [cut(one, window.start_ns, window.end_ns) for one in spans]
    devices = tuple(
        DeviceReport(
            one.device, split_time(one), idle_causes(timeline, one, nesting, launches, places)
        )
        for one in spans
    )
    if window is not None:
        timeline = within(timeline, launches, window)
        nesting, launches = nest(timeline.host), join_launches(timeline)
        places = code_places(timeline)
    return TraceAnalysis(
        window=window,
        devices=devices,
        kernels=kernel_table(timeline),
        operators=operator_table(timeline, nesting, launches),
        launches=launch_stats(timeline, launches),
        copies=copy_table(timeline),
        syncs=sync_calls(timeline, nesting, launches, places),
        steps=trace_steps(timeline, spans[0] if spans else None),
        quality=quality,
        modules=_by_place(timeline, launches, places, modules=True),
        lines=_by_place(timeline, launches, places, modules=False),
        roofline=_roofline(timeline, nesting, launches, window),
    )


def _roofline(
    timeline: Timeline, nesting: Nesting, launches: Launches, window: Window | None
) -> "Roofline | None":
    if not len(timeline.device) or not len(timeline.arguments):
        return None
    # Imported here: its models of operators take a while, and many traces have no shapes.
    from lightning_gpuprof.analysis.roofline.roofline import roofline

    span_ns = window.end_ns - window.start_ns if window else None
    return roofline(timeline, nesting, launches, span_ns=span_ns)


def _by_place(
    timeline: Timeline, launches: Launches, places: CodePlaces | None, *, modules: bool
) -> tuple[PlaceStats, ...]:
    if places is None:
        return ()
    rows = places.module if modules else places.frame
    return device_time_by_place(timeline, launches, rows, modules=modules)
