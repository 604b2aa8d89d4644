"""Sums up launches (their delay, the queue's depth, their number per step) and host ranges."""

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import named, sums_by_name
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.kernels import SHORT_NS
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.analysis.trace.step_marks import step_events
from lightning_gpuprof.analysis.trace_tables import (
    CallRow,
    LaunchStats,
    OrderStatistics,
    QueueDepth,
    RangeRow,
    TraceWindow,
)
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORIES, CATEGORY_ID, Timeline, of_category, select

SERIES_POINTS = 200


def launch_stats(timeline: Timeline, launches: Launches) -> LaunchStats:
    """Sum up launches and runtime calls."""
    host, device = timeline.host, timeline.device
    calls = _call_table(timeline)
    steps = step_events(timeline)
    first = np.empty(len(launches.calls), dtype=np.int32)
    rows = np.flatnonzero(launches.call >= 0)[
        ::-1
    ]  # backwards: a call's first event is written last
    first[np.searchsorted(launches.calls, launches.call[rows])] = rows
    started = device.start_ns[first]
    called = host.start_ns[launches.call[first]]
    is_kernel = device.category == CATEGORY_ID["kernel"]
    graphs = named(timeline, lambda name: call_kind(name) == "graph")
    graphed = is_kernel & np.append(graphs, False)[launches.call]  # the last value is for index -1
    return LaunchStats(
        count=len(launches.calls),
        kernel_count=int(is_kernel.sum()),
        graph_count=sum(row.count for row in calls if row.kind == "graph"),
        graphed_thin_count=int((device.dur_ns[graphed] < SHORT_NS).sum()),
        kernels_per_step=_per_step(device.start_ns[is_kernel], steps.start_ns, steps.end_ns),
        launches_per_step=_per_step(host.start_ns[launches.calls], steps.start_ns, steps.end_ns),
        delay=distribution(started - called),
        overhead=distribution(host.dur_ns[launches.calls]),
        queue_depth=_queue_depth(called, np.maximum(started, called)),
        calls=calls,
    )


def _call_table(timeline: Timeline) -> tuple[CallRow, ...]:
    calls = select(timeline.host, of_category(timeline.host, "cuda_runtime", "cuda_driver"))
    return tuple(
        CallRow(
            call.name, call_kind(call.name), call.count, call.total_ns, call.mean_ns, call.max_ns
        )
        for call in sums_by_name(timeline.names, calls.name, calls.dur_ns)
    )


def distribution(values: Int64) -> OrderStatistics | None:
    """Return order statistics; None without values."""
    if not len(values):
        return None
    ordered = np.sort(values)
    last = len(ordered) - 1
    return OrderStatistics(
        int(ordered[0]),
        int(ordered[last // 2]),
        int(ordered[-(-last * 9 // 10)]),
        int(ordered[last]),
        float(ordered.mean()),
    )


def _per_step(at: Int64, start: Int64, end: Int64) -> float | None:
    if not len(start):
        return None
    inside = (at >= start.min()) & (at < end.max())
    return float(inside.sum() / len(start))


def _queue_depth(called: Int64, started: Int64) -> QueueDepth | None:
    """Return how many launches had not started, after each launch and each start."""
    if not len(called):
        return None
    at = np.concatenate((started, called))
    order = np.argsort(
        at, kind="stable"
    )  # at the same time, starts leave the queue before launches enter it
    change = np.repeat((-1, 1), len(called))[order]
    depth = np.maximum(np.cumsum(change), 0)
    span = int(started.max() - called[0])
    stride = -(-len(at) // SERIES_POINTS)
    series = zip(at[order][::stride].tolist(), depth[::stride].tolist(), strict=True)
    # Each launch is in the queue for as long as it waits.
    mean = int((started - called).sum()) / span if span else None
    return QueueDepth(int(depth.max()), mean, tuple(series))


MOST_RANGES = 200
"""The most ranges in the table, because names can hold numbers of steps or sizes."""


def host_ranges(timeline: Timeline, window: TraceWindow | None = None) -> tuple[RangeRow, ...]:
    """Sum up host events that are neither operators nor runtime calls."""
    host = timeline.host
    wanted = of_category(host, "user_annotation", "other")
    if window is not None:
        wanted &= (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)
    rows = select(host, wanted)
    kind = dict(zip(rows.name.tolist(), rows.category.tolist(), strict=True))
    return tuple(
        RangeRow(
            range_.name,
            CATEGORIES[kind[range_.key]],
            range_.count,
            range_.total_ns,
            range_.min_ns,
            range_.max_ns,
        )
        for range_ in sums_by_name(timeline.names, rows.name, rows.dur_ns)[:MOST_RANGES]
    )
