"""A Timeline laid out in lanes, in which no event overlaps another.

Lanes come in groups: annotations, a device's idle time by cause, its streams, host syncs, host
threads, and Python calls. Inside a lane events are sorted by start, so that a range of time is a
slice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.idle import CAUSES, caused_gaps
from lightning_gpuprof.analysis.trace.kernel_category import CATEGORIES as KERNEL_KINDS
from lightning_gpuprof.analysis.trace.kernel_category import categorize
from lightning_gpuprof.analysis.trace.linked_trace import Launches, LinkedTrace, link, nest
from lightning_gpuprof.analysis.trace.step_marks import step_events
from lightning_gpuprof.analysis.trace.syncs import waiting_calls
from lightning_gpuprof.analysis.trace.time_split import device_spans
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import (
    CATEGORIES,
    CATEGORY_ID,
    HostEvents,
    MemoryEvents,
    Timeline,
    make_table,
    of_category,
)

KINDS = (
    *("operator", "annotation", "runtime", "sync", "allocator", "python", "overhead"),
    *("memcpy", "memset"),
    *(f"kernel_{name}" for name in KERNEL_KINDS),
    *(f"idle_{cause}" for cause in CAUSES),
)
KIND_ID = {kind: index for index, kind in enumerate(KINDS)}
_HOST_KIND = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "python_function": "python",
}


def host_kinds(timeline: Timeline) -> Int64:
    """Return the kind of each host event, as an index into `KINDS`.

    Calls that wait for the device are of the kind `runtime` here, not `sync`.
    """
    host = timeline.host
    by_category = [KIND_ID[_HOST_KIND.get(name, "overhead")] for name in CATEGORIES]
    kinds = np.array(by_category, dtype=np.int64)[host.category]
    allocates = named(timeline, lambda name: call_kind(name) == "allocator")
    kinds[allocates & (kinds == KIND_ID["runtime"])] = KIND_ID["allocator"]
    return kinds


def device_kinds(timeline: Timeline) -> Int64:
    """Return the kind of each device event, as an index into `KINDS`."""
    device = timeline.device
    by_name = np.full(len(timeline.names), KIND_ID["kernel_other"], dtype=np.int64)
    for index in np.unique(device.name).tolist():
        by_name[index] = KIND_ID[f"kernel_{categorize(timeline.names[index])}"]
    kinds = by_name[device.name].astype(np.int64)
    kinds[device.category == CATEGORY_ID["gpu_memcpy"]] = KIND_ID["memcpy"]
    kinds[device.category == CATEGORY_ID["gpu_memset"]] = KIND_ID["memset"]
    return kinds


@dataclass(frozen=True)
class Layer:
    """Events that share a group kind; `group` is the group of the layer that an event belongs to.

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
    kinds[waited] = KIND_ID["sync"]
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
        tuple(thread.label for thread in threads),
        group,
        _depths(host.start_ns[rows], host.dur_ns[rows], group),
        host.start_ns[rows],
        host.dur_ns[rows],
        host.name[rows].astype(np.int64),
        kinds[rows],
        # A sync is drawn again in its thread, and the row belongs to that event.
        np.full(len(rows), -1, dtype=np.int64) if kind == "syncs" else rows,
        rows if kind == "syncs" else np.full(len(rows), -1, dtype=np.int64),
    )


def _device_label(timeline: Timeline, number: int) -> str:
    """Return a device's number, with its rank in a file that joins several ranks."""
    ranks = {device.id: device.rank for device in timeline.devices}
    return f"{ranks[number]} device {number}" if ranks.get(number) else f"device {number}"


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
        tuple(
            f"{_device_label(timeline, d)} stream {s}" if several else f"stream {s}"
            for d, s in used.T.tolist()
        ),
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
    for device in spans:
        gaps = caused_gaps(trace, device)
        if not len(gaps.spans):
            continue
        zeros = np.zeros(len(gaps.spans), dtype=np.int64)
        yield Layer(
            "idle",
            (
                f"{_device_label(timeline, device.device)} idle"
                if len(spans) > 1
                else "device idle",
            ),
            zeros,
            zeros,
            gaps.spans.start,
            gaps.spans.end - gaps.spans.start,
            gaps.cause + len(timeline.names),
            gaps.cause + KIND_ID[f"idle_{CAUSES[0]}"],
            np.full(len(gaps.spans), -1, dtype=np.int64),
            np.where(gaps.next_row >= 0, gaps.next_row + len(timeline.host), -1),
        )


def _depths(start: Int64, dur: Int64, group: Int64) -> Int64:
    table = make_table(HostEvents, start_ns=start, dur_ns=dur, thread=group)
    return nest(table).depth.astype(np.int64)


@dataclass(frozen=True)
class LaneGroup:
    """Neighbouring lanes, one per depth."""

    kind: str
    """annotations, idle, stream, syncs, thread or python."""
    label: str
    first: int
    lanes: int


@dataclass(frozen=True)
class Layout:
    """Events by lane, then start; an index into them is an *event number*.

    `lane_first` is the number of each lane's first event, and of events at the end. `partner` is
    the launch of device work, the first device event of a launch, or the event that ended an idle
    gap. -1 where there is none.
    """

    span: tuple[int, int]
    names: Sequence[str]
    groups: tuple[LaneGroup, ...]
    lane_first: Int64
    start_ns: Int64
    dur_ns: Int64
    name: Int64
    kind: Int64
    parent: Int64
    partner: Int64
    arguments: Int64
    memory: MemoryEvents

    def __len__(self) -> int:
        return len(self.start_ns)


def lay_out(timeline: Timeline) -> Layout:
    """Lay a trace out in lanes."""
    trace = link(timeline)
    names = [*timeline.names, *CAUSES]
    layers = list(find_layers(trace))
    groups, lanes = _stack(layers)
    order = np.lexsort((_joined(layers, "start_ns"), lanes))
    row, next_row = _joined(layers, "row")[order], _joined(layers, "next_row")[order]
    host_rows = len(timeline.host)
    event_of = np.full(host_rows + len(timeline.device), -1, dtype=np.int64)
    event_of[row[row >= 0]] = np.flatnonzero(row >= 0)
    none = np.full(len(timeline.device), -1, dtype=np.int64)
    # With Python calls, unlike the causes of idle time: here they are the stack of an event.
    around = nest(timeline.host, python=True)
    outer: Int64 = np.concatenate((around.parent.astype(np.int64), none))
    launched = _first_launched(trace.launches, host_rows)
    other: Int64 = np.concatenate((launched, trace.launches.call))
    arguments: Int64 = np.concatenate((timeline.host.arguments.astype(np.int64), none))
    start, dur = _joined(layers, "start_ns")[order], _joined(layers, "dur_ns")[order]
    lane_count = sum(group.lanes for group in groups)
    return Layout(
        span=(int(start.min(initial=0)), int((start + dur).max(initial=0))),
        names=names,
        groups=groups,
        lane_first=np.searchsorted(lanes[order], np.arange(lane_count + 1)),
        start_ns=start,
        dur_ns=dur,
        name=_joined(layers, "name")[order],
        kind=_joined(layers, "event_kind")[order],
        parent=follow(event_of, follow(outer, row)),
        partner=follow(event_of, np.where(row >= 0, follow(other, row), next_row)),
        arguments=follow(arguments, row),
        memory=timeline.memory,
    )


def _stack(layers: Sequence[Layer]) -> tuple[tuple[LaneGroup, ...], Int64]:
    """Return the groups of all layers, one below the other, and each event's lane."""
    groups: list[LaneGroup] = []
    lanes = [np.zeros(0, dtype=np.int64)]
    first = 0
    for layer in layers:
        deep = np.zeros(len(layer.labels), dtype=np.int64)
        np.maximum.at(deep, layer.group, layer.depth + 1)
        starts = first + np.cumsum(deep) - deep
        lanes.append(starts[layer.group] + layer.depth)
        for label, start, depth in zip(layer.labels, starts.tolist(), deep.tolist(), strict=True):
            groups.append(LaneGroup(layer.kind, label, start, depth))
        first += int(deep.sum())
    return tuple(groups), np.concatenate(lanes)


def _joined(layers: Sequence[Layer], column: str) -> Int64:
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *(getattr(layer, column) for layer in layers)])


def _first_launched(launches: Launches, host_rows: int) -> Int64:
    """Return the first device row (counted after the host's) of each host row, -1 for none."""
    first = np.full(host_rows, -1, dtype=np.int64)
    rows = np.flatnonzero(launches.call >= 0)[::-1]
    first[launches.call[rows]] = rows + host_rows
    return first


def follow(targets: Int64, index: Int64) -> Int64:
    """Look up each index, keeping -1 where there is none."""
    followed: Int64 = np.append(targets, -1)[index]
    return followed
