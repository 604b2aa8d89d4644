"""A Timeline laid out to be drawn: every event in a lane in which none overlaps another.

Lanes come in groups: annotations, a device's idle time by cause, its streams, host syncs, host
threads, and Python calls. Inside a lane events are sorted by start, so that a range of time is
a slice. The whole is made once, after capture; what is drawn is then cut out of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.drawing.layers import Layer, find_layers
from lightning_gpuprof.analysis.trace.idle import CAUSES
from lightning_gpuprof.analysis.trace.linked_trace import Launches, link, nest
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import MemoryEvents, Timeline


@dataclass(frozen=True)
class LaneGroup:
    """Neighbouring lanes, one per depth."""

    kind: str
    """annotations, idle, stream, syncs, thread or python."""
    label: str
    first: int
    lanes: int


@dataclass(frozen=True)
class Drawing:
    """Events by lane, then start; an index into them is an *event number*.

    Args:
        span: First and last nanosecond of all events.
        names: Every name once.
        groups: The lanes, from top to bottom.
        lane_first: Number of each lane's first event, and of events at the end.
        start_ns: Start, relative to the trace's first event.
        dur_ns: Duration.
        name: Index into `names`.
        kind: Index into `kinds.KINDS`.
        parent: Event around this one, -1 for none.
        partner: The launch of what ran on a device, the first device event of a launch, or
            what ended an idle gap; -1 for none.
        arguments: Index into the trace's operator arguments, -1 for none.
        memory: Allocator marks.
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


def make_drawing(timeline: Timeline) -> Drawing:
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
    # With Python calls, which causes leave out: here they are the stack of each event.
    around = nest(timeline.host, python=True)
    outer: Int64 = np.concatenate((around.parent.astype(np.int64), none))
    launched = _first_launched(trace.launches, host_rows)
    other: Int64 = np.concatenate((launched, trace.launches.call))
    arguments: Int64 = np.concatenate((timeline.host.arguments.astype(np.int64), none))
    start, dur = _joined(layers, "start_ns")[order], _joined(layers, "dur_ns")[order]
    lane_count = sum(group.lanes for group in groups)
    return Drawing(
        span=(int(start.min(initial=0)), int((start + dur).max(initial=0))),
        names=names,
        groups=groups,
        lane_first=np.searchsorted(lanes[order], np.arange(lane_count + 1)),
        start_ns=start,
        dur_ns=dur,
        name=_joined(layers, "name")[order],
        kind=_joined(layers, "event_kind")[order],
        parent=_follow(event_of, _follow(outer, row)),
        partner=_follow(event_of, np.where(row >= 0, _follow(other, row), next_row)),
        arguments=_follow(arguments, row),
        memory=timeline.memory,
    )


def _stack(layers: Sequence[Layer]) -> tuple[tuple[LaneGroup, ...], Int64]:
    """Put the groups below each other; returns them and each event's lane."""
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


def _follow(targets: Int64, index: Int64) -> Int64:
    """Look up each index, keeping -1 where there is none."""
    if not len(targets):
        return np.full(len(index), -1, dtype=np.int64)
    found: Int64 = np.where(index >= 0, targets[np.maximum(index, 0)], -1)
    return found
