"""Faults of a trace itself, shown first because all else rests on it."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import passing
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.traces.timeline import Timeline, of_category


class TraceQuality(Struct, frozen=True):
    """Counts of faults."""

    launch_count: int
    lost_kernels: int
    orphan_kernels: int
    kernels_before_launch: int
    notes: tuple[str, ...]


def trace_quality(timeline: Timeline, launches: Launches) -> TraceQuality:
    """Count what is lost, cut or impossible."""
    host, device = timeline.host, timeline.device
    calls = np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver"))
    launches_work = passing(timeline, lambda name: call_kind(name) in ("kernel", "graph"))
    rows = calls[launches_work[host.name[calls]]]
    has_work = np.zeros(len(host), dtype=np.bool_)
    has_work[launches.calls] = True
    lost = int((~has_work[rows]).sum())
    joined = launches.call >= 0
    orphans = int((~joined).sum()) if len(calls) else 0
    early = int((device.start_ns[joined] < host.start_ns[launches.call[joined]]).sum())
    notes = []
    if lost:
        notes.append(
            f"{lost} of {len(rows)} kernel launches have no kernel in the trace: device time is "
            "too low by what they ran."
        )
    if orphans:
        notes.append(
            f"{orphans} of {len(device)} device events have no launching call in the trace: they "
            "were launched before it began, or the calls were lost."
        )
    if early:
        notes.append(
            f"{early} device events start before their launching call: host and device clocks "
            "disagree, and launch delays are off by as much."
        )
    return TraceQuality(len(rows), lost, orphans, early, tuple(notes))
