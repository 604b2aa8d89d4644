"""The events that are drawn, group by group, each with the depth of its lane in the group."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.drawing.kinds import KIND_ID, device_kinds, host_kinds
from lightning_gpuprof.analysis.trace.idle import CAUSES, caused_gaps
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, nest
from lightning_gpuprof.analysis.trace.syncs import waiting_calls
from lightning_gpuprof.analysis.trace.time_split import device_spans
from lightning_gpuprof.analysis.trace.trace_window import step_events
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import HostEvents, Timeline, make_table, of_category


@dataclass(frozen=True)
class Layer:
    """Events that share a group kind; `group` tells which group of the layer each belongs to.

    `row` counts host rows first, then device rows; -1 where an event is in neither table.
    """

    kind: str
    labels: tuple[str, ...]
    group: Int64
    depth: Int64
    start_ns: Int64
    dur_ns: Int64
    name: Int64
    event_kind: Int64
    row: Int64
    next_row: Int64


def find_layers(trace: LinkedTrace) -> Iterator[Layer]:
    """Yield the layers of a trace, from top to bottom."""
    timeline, host = trace.timeline, trace.timeline.host
    kinds = host_kinds(timeline)
    annotated = of_category(host, "user_annotation")
    python = of_category(host, "python_function")
    waited, _ = waiting_calls(trace)
    kinds[waited > 0] = KIND_ID["sync"]
    synced = kinds == KIND_ID["sync"]
    yield from _host_layer(timeline, "annotations", annotated, kinds)
    yield from _idle_layer(trace)
    yield from _device_layer(timeline)
    yield from _host_layer(timeline, "syncs", synced, kinds)
    yield from _host_layer(timeline, "thread", ~annotated & ~python, kinds)
    yield from _host_layer(timeline, "python", python, kinds)


def _host_layer(timeline: Timeline, kind: str, keep: Mask, kinds: Int64) -> Iterator[Layer]:
    rows = np.flatnonzero(keep)
    if not len(rows):
        return
    host = timeline.host
    used, group, counts = np.unique(host.thread[rows], return_inverse=True, return_counts=True)
    # First the thread that drives the training: of the steps where they are marked, else the
    # busiest (on a GPU, autograd's own may have as many events).
    steps = np.isin(used, step_events(timeline).thread)
    place = np.argsort(np.lexsort((-counts, ~steps)))
    group = place[group]
    threads = [timeline.threads[used[i]] for i in np.argsort(place, kind="stable")]
    yield Layer(
        kind,
        tuple(one.name or f"thread {one.tid}" for one in threads),
        group,
        _depths(host.start_ns[rows], host.dur_ns[rows], group),
        host.start_ns[rows],
        host.dur_ns[rows],
        host.name[rows].astype(np.int64),
        kinds[rows],
        # Drawn a second time in its thread, where its row belongs.
        np.full(len(rows), -1, dtype=np.int64) if kind == "syncs" else rows,
        rows if kind == "syncs" else np.full(len(rows), -1, dtype=np.int64),
    )


def _device_layer(timeline: Timeline) -> Iterator[Layer]:
    device = timeline.device
    if not len(device):
        return
    pairs = np.stack((device.device.astype(np.int64), device.stream))
    used, group = np.unique(pairs, axis=1, return_inverse=True)
    several = len(np.unique(device.device)) > 1
    rows = np.arange(len(device), dtype=np.int64)
    yield Layer(
        "stream",
        tuple(f"device {d} stream {s}" if several else f"stream {s}" for d, s in used.T.tolist()),
        group.reshape(-1),
        _depths(device.start_ns, device.dur_ns, group.reshape(-1)),
        device.start_ns,
        device.dur_ns,
        device.name.astype(np.int64),
        device_kinds(timeline),
        rows + len(timeline.host),
        np.full(len(rows), -1, dtype=np.int64),
    )


def _idle_layer(trace: LinkedTrace) -> Iterator[Layer]:
    timeline = trace.timeline
    spans = device_spans(timeline)
    for one in spans:
        found = caused_gaps(trace, one)
        none = np.zeros(len(found.spans), dtype=np.int64)
        if not len(none):
            continue
        yield Layer(
            "idle",
            (f"device {one.device} idle" if len(spans) > 1 else "device idle",),
            none,
            none,
            found.spans.start,
            found.spans.end - found.spans.start,
            found.cause + len(timeline.names),
            found.cause + KIND_ID[f"idle_{CAUSES[0]}"],
            none - 1,
            np.where(found.next_row >= 0, found.next_row + len(timeline.host), -1),
        )


def _depths(start: Int64, dur: Int64, group: Int64) -> Int64:
    table = make_table(HostEvents, start_ns=start, dur_ns=dur, thread=group)
    return nest(table).depth.astype(np.int64)
