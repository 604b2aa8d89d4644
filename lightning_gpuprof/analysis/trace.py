"""All analyses of one Timeline, in the order in which they build on each other."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.code_places import (
    PlaceStats,
    code_places,
    device_time_by_place,
)
from lightning_gpuprof.analysis.copies import CopyStats, copy_table
from lightning_gpuprof.analysis.idle import IdleReport, idle_causes
from lightning_gpuprof.analysis.kernels import KernelTable, kernel_table
from lightning_gpuprof.analysis.launch_join import join_launches
from lightning_gpuprof.analysis.launches import LaunchStats, launch_stats
from lightning_gpuprof.analysis.nesting import nest
from lightning_gpuprof.analysis.operators import OperatorStats, operator_table
from lightning_gpuprof.analysis.quality import TraceQuality, trace_quality
from lightning_gpuprof.analysis.syncs import SyncReport, sync_calls
from lightning_gpuprof.analysis.time_split import TimeSplit, device_spans, split_time
from lightning_gpuprof.analysis.trace_steps import TraceStep, trace_steps
from lightning_gpuprof.traces.timeline import Timeline


@dataclass(frozen=True)
class DeviceReport:
    """One device of a trace: its time split and what its idle time is due to."""

    device: int
    split: TimeSplit
    idle: IdleReport


@dataclass(frozen=True)
class TraceAnalysis:
    """Everything that is found out about a trace.

    `devices` is empty on a CPU-only trace, `modules` and `lines` where no stacks were read.
    """

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


def analyze_timeline(timeline: Timeline) -> TraceAnalysis:
    """Run every analysis."""
    nesting = nest(timeline.host)
    launches = join_launches(timeline)
    places = code_places(timeline, nesting)
    spans = device_spans(timeline)
    return TraceAnalysis(
        devices=tuple(
            DeviceReport(
                one.device,
                split_time(one),
                idle_causes(timeline, one, nesting, launches, places),
            )
            for one in spans
        ),
        kernels=kernel_table(timeline),
        operators=operator_table(timeline, nesting, launches),
        launches=launch_stats(timeline, launches),
        copies=copy_table(timeline),
        syncs=sync_calls(timeline, nesting, launches, places),
        steps=trace_steps(timeline, spans[0] if spans else None),
        quality=trace_quality(timeline, launches),
        modules=device_time_by_place(timeline, launches, places.module, modules=True)
        if places
        else (),
        lines=device_time_by_place(timeline, launches, places.frame, modules=False)
        if places
        else (),
    )
