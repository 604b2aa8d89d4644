"""Faults of a trace itself, shown first because all else rests on it."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from lightning_gpuprof.analysis.trace.grouping import used
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.analysis.trace.trace_window import step_events
from lightning_gpuprof.traces.timeline import HostEvents, Timeline, of_category

ROUNDING_NS = 1_000
"""Files with whole microseconds may show an event ending this much after the one around it."""


class TraceQuality(Struct, frozen=True):
    """Counts of faults."""

    launch_count: int
    lost_kernels: int
    orphan_kernels: int
    kernels_before_launch: int
    overlapping_steps: int
    cut_steps: int
    notes: tuple[str, ...]


def trace_quality(timeline: Timeline, launches: Launches) -> TraceQuality:
    """Count what is lost, cut or impossible."""
    host, device = timeline.host, timeline.device
    calls = np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver"))
    launches_work = np.zeros(len(timeline.names), dtype=np.bool_)
    for name in used(host.name[calls]):
        launches_work[name] = call_kind(timeline.names[name]) in ("kernel", "graph")
    rows = calls[launches_work[host.name[calls]]]
    has_work = np.zeros(len(host), dtype=np.bool_)
    has_work[launches.calls] = True
    lost = int((~has_work[rows]).sum())
    joined = launches.call >= 0
    orphans = int((~joined).sum()) if len(calls) else 0
    early = int((device.start_ns[joined] < host.start_ns[launches.call[joined]]).sum())
    steps = step_events(timeline)
    overlapping = int((steps.start_ns[1:] < steps.end_ns[:-1]).sum())
    faults = TraceQuality(
        len(rows), lost, orphans, early, overlapping, _cut_steps(timeline, steps), ()
    )
    return replace(faults, notes=tuple(_notes(faults, len(device))))


def _cut_steps(timeline: Timeline, steps: HostEvents) -> int:
    """Count steps that end while something that began inside them still runs on their thread."""
    host = timeline.host
    work = of_category(host, "cpu_op", "user_annotation")
    count = 0
    for start, end, thread in zip(
        steps.start_ns.tolist(), steps.end_ns.tolist(), steps.thread.tolist(), strict=True
    ):
        low, high = np.searchsorted(host.start_ns, (start + 1, end))
        inside = work[low:high] & (host.thread[low:high] == thread)
        beyond = host.start_ns[low:high] + host.dur_ns[low:high] > end + ROUNDING_NS
        count += bool((inside & beyond).any())
    return count


def _notes(faults: TraceQuality, device_events: int) -> list[str]:
    notes = []
    if faults.lost_kernels:
        notes.append(
            f"{faults.lost_kernels} of {faults.launch_count} kernel launches have no kernel in "
            "the trace: device time is too low by what they ran."
        )
    if faults.orphan_kernels:
        notes.append(
            f"{faults.orphan_kernels} of {device_events} device events have no launching call in "
            "the trace: they were launched before it began, or the calls were lost."
        )
    if faults.kernels_before_launch:
        notes.append(
            f"{faults.kernels_before_launch} device events start before their launching call: "
            "host and device clocks disagree, and launch delays are off by as much."
        )
    if faults.overlapping_steps:
        notes.append(f"{faults.overlapping_steps} profiler steps overlap the one before.")
    if faults.cut_steps:
        notes.append(
            f"{faults.cut_steps} profiler steps end inside an operator or region: work of one "
            "step counts to the next. Call the profiler's step() between iterations."
        )
    return notes
