"""Reads one rank's trace down to what is compared between ranks: some kilobytes."""

import re
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.job.job_tables import DEVICE_PARTS, HOST_PARTS
from lightning_gpuprof.analysis.trace.grouping import distinct
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.analysis.trace.step_marks import step_events
from lightning_gpuprof.analysis.trace.time_split import (
    DeviceSpans,
    covered_until,
    split_time,
    union,
)
from lightning_gpuprof.analysis.trace.trace_window import over_steps, spans_within
from lightning_gpuprof.analysis.trace_tables import TimeSplit
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.gate import launch_rows
from lightning_gpuprof.traces.kineto.collectives import (
    Collective,
    CollectiveEvents,
    read_collectives,
)
from lightning_gpuprof.traces.timeline import HostEvents, Timeline, of_category

_NUMBER = re.compile(r"(\d+)$")
NO_STEP = -1


@dataclass(frozen=True)
class RankTrace:
    """One rank's collectives, and its time between them.

    Args:
        rank, file: Which rank's, and the name of its trace.
        steps: The marked steps in the trace.
        span_ns: The time of the usual steps, or of the whole trace.
        device: How the device's time divides; None without a device.
        kinds: What is said of the collectives.
        kind: Index into `kinds`, one per collective in order of time.
        dur_ns: How long each took, waits included.
        step: The number of the step in which each was begun; `NO_STEP` outside.
        sequence: The number of each in its process group; -1 if not recorded.
        parts: What the rank did since its collective before: a row per collective, a column for
            each of `DEVICE_PARTS` or `HOST_PARTS`, in ns.
        on_device: Whether the collectives are kernels.
        in_collectives_ns: The time covered by collectives.
        warnings: Those of the trace's reader.
    """

    rank: int
    file: str
    steps: int
    span_ns: int
    device: TimeSplit | None
    kinds: tuple[Collective, ...]
    kind: Int64
    dur_ns: Int64
    step: Int64
    sequence: Int64
    parts: Int64
    on_device: bool
    in_collectives_ns: int
    warnings: tuple[str, ...]


def rank_trace(path: str, rank: int, name: str) -> RankTrace:
    """Read a rank's trace.

    Args:
        path: The file.
        rank: The rank that wrote it.
        name: What to call it.

    Raises:
        GpuProfError: It cannot be read.
    """
    events = read_collectives(path)
    timeline = open_timeline(path, ReadOptions(stacks=False))
    calls = launch_rows(timeline)
    launches = Launches(calls, distinct(calls[calls >= 0]).astype(np.int32))
    spans = spans_within(timeline, launches, None)
    counted = over_steps(timeline, launches, spans)
    device = split_time(counted[0]) if counted else None
    start_ns = events.start_ns - timeline.origin_ns
    marks = step_events(timeline)
    numbers = [_NUMBER.search(timeline.names[name]) for name in marks.name.tolist()]
    parts = (
        _device_parts(spans[0], start_ns, events.dur_ns)
        if events.on_device and spans
        else _host_parts(timeline, start_ns, events.dur_ns)
    )
    return RankTrace(
        rank=rank,
        file=name,
        steps=len(marks),
        span_ns=device.span_ns if device is not None else _host_span(timeline, marks),
        device=device,
        kinds=events.kinds,
        kind=events.kind,
        dur_ns=events.dur_ns,
        step=_steps(
            _begun(timeline, events, start_ns),
            marks.start_ns,
            marks.end_ns,
            np.array([int(match[1]) if match else NO_STEP for match in numbers], dtype=np.int64),
        ),
        sequence=events.sequence,
        parts=parts,
        on_device=events.on_device,
        in_collectives_ns=union(start_ns, start_ns + events.dur_ns).total,
        warnings=timeline.warnings,
    )


def _host_span(timeline: Timeline, marks: HostEvents) -> int:
    table = marks if len(marks) else timeline.host
    return int(table.end_ns.max() - table.start_ns.min()) if len(table) else 0


def _begun(timeline: Timeline, events: CollectiveEvents, start_ns: Int64) -> Int64:
    """Return when the host began each collective: at its launch, if that was recorded."""
    host = timeline.host
    launching = np.flatnonzero(host.correlation >= 0)
    if not events.on_device or not len(launching):
        return start_ns
    order = launching[np.argsort(host.correlation[launching], kind="stable")]
    ids = host.correlation[order]
    at = np.minimum(np.searchsorted(ids, events.correlation), len(ids) - 1)
    joined = ids[at] == events.correlation
    return np.where(joined, host.start_ns[order[at]], start_ns)


def _steps(begun_ns: Int64, start_ns: Int64, end_ns: Int64, number: Int64) -> Int64:
    """Return the number of the step in which each collective was begun."""
    if not len(start_ns):
        return np.full(len(begun_ns), NO_STEP, dtype=np.int64)
    at = np.searchsorted(start_ns, begun_ns, side="right") - 1
    inside = (at >= 0) & (begun_ns < end_ns[at])
    return np.where(inside, number[at], NO_STEP)


def _since_before(start_ns: Int64, dur_ns: Int64, first_ns: int) -> tuple[Int64, Int64]:
    """Return from when to when a rank was on its way to each collective."""
    ends = np.maximum.accumulate(np.append(first_ns, start_ns + dur_ns))[:-1]
    return np.minimum(ends, start_ns), start_ns


def _device_parts(spans: DeviceSpans, start_ns: Int64, dur_ns: Int64) -> Int64:
    first_ns = int(spans.busy.start[0]) if len(spans.busy) else 0
    begin, end = _since_before(start_ns, dur_ns, first_ns)
    compute, either, busy = (
        covered_until(part, end) - covered_until(part, begin)
        for part in (spans.compute, spans.compute_or_comm, spans.busy)
    )
    columns = (compute, busy - either, (end - begin) - busy)
    assert len(columns) == len(DEVICE_PARTS)
    return np.stack(columns, axis=1)


def _host_parts(timeline: Timeline, start_ns: Int64, dur_ns: Int64) -> Int64:
    host = timeline.host
    rows = of_category(host, "cpu_op")
    operators = union(host.start_ns[rows], host.end_ns[rows])
    first_ns = int(host.start_ns.min()) if len(host) else 0
    begin, end = _since_before(start_ns, dur_ns, first_ns)
    inside = covered_until(operators, end) - covered_until(operators, begin)
    columns = (inside, (end - begin) - inside)
    assert len(columns) == len(HOST_PARTS)
    return np.stack(columns, axis=1)
