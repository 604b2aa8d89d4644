"""The timeline of a profiler cycle: its lanes, a range of it, a single event, a search."""

import os
import re
from contextlib import suppress

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from lightning_gpuprof.analysis.timeline.call_tree import first_of_each
from lightning_gpuprof.analysis.timeline.cut import Cut
from lightning_gpuprof.analysis.timeline.layout import KINDS, Layout
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.files import LAYOUT_SUFFIX
from lightning_gpuprof.report.charts.cycles import CycleState, pick_cycle
from lightning_gpuprof.report.charts.layout_file import (
    LayoutFileError,
    LoadedLayout,
    MemoryTrack,
    unpack,
)
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.document import Column, Table
from lightning_gpuprof.report.labels import event_label

MAX_COLUMNS = 12_000
MAX_FOUND = 200
MAX_STACK = 60
NAME_LENGTH = 300
_ALIGN = 8
_GROUP = re.compile(r"[0-9]{1,9}")


class Group(Struct, frozen=True):
    """Lanes of a timeline under one heading, such as a thread of the host or a stream."""

    kind: str
    label: str
    first: int
    """The number of the group's first lane."""
    lanes: int
    events: int


class TimelinePayload(Struct, frozen=True):
    """The lanes and the length of a cycle's timeline, and whether it is prepared."""

    trace: str | None
    state: CycleState
    span_ns: tuple[int, int] = (0, 0)
    events: int = 0
    kinds: tuple[str, ...] = KINDS
    """Kinds of events by number, as `/timeline_cut` has them."""
    used: tuple[str, ...] = ()
    """The kinds of events that occur in this timeline."""
    groups: tuple[Group, ...] = ()
    memory: tuple[MemoryTrack, ...] = ()
    error: str | None = None


def timeline_view(run: LoadedRun, query: Query) -> TimelinePayload:
    """Return the lanes and the length of a cycle's timeline."""
    trace, loaded = _prepared(run, query)
    if loaded is None:
        return TimelinePayload(trace, _unprepared(trace))
    layout = loaded.layout
    first, last = layout.span
    return TimelinePayload(
        trace,
        "prepared",
        span_ns=(first, last),
        events=len(layout),
        used=tuple(KINDS[kind] for kind in np.unique(layout.kind).tolist()),
        groups=tuple(_group(layout, index) for index in range(len(layout.groups))),
        memory=tuple(loaded.memory_tracks()),
    )


class CallTreePayload(Struct, frozen=True):
    """The call tree of a cycle, as columns; a node comes after its parent."""

    trace: str | None
    state: CycleState
    name: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    parent: tuple[int, ...] = ()
    """The number of the caller; -1 if there is none."""
    count: tuple[int, ...] = ()
    host_ns: tuple[int, ...] = ()
    device_ns: tuple[int, ...] = ()
    error: str | None = None


def call_tree_view(run: LoadedRun, query: Query) -> CallTreePayload:
    """Return the call tree of a cycle."""
    trace, loaded = _prepared(run, query)
    if loaded is None:
        return CallTreePayload(trace, _unprepared(trace))
    tree, names = loaded.tree, loaded.layout.names
    return CallTreePayload(
        trace,
        "prepared",
        name=tuple(names[number][:NAME_LENGTH] for number in tree.name.tolist()),
        kind=tuple(KINDS[number] for number in tree.kind.tolist()),
        parent=tuple(tree.parent.tolist()),
        count=tuple(tree.count.tolist()),
        host_ns=tuple(tree.host_ns.tolist()),
        device_ns=tuple(tree.device_ns.tolist()),
    )


def timeline_cut_view(run: LoadedRun, query: Query) -> bytes:
    """Return the blocks of a range of time, in columns; http_api.md describes the layout."""
    loaded = _loaded(run, query)
    layout = loaded.layout
    first, last = layout.span
    start = query.integer("from", default=first, low=-(2**53), high=2**53)
    end = query.integer("to", default=last, low=start, high=2**53)
    columns = query.integer("columns", default=2000, low=1, high=MAX_COLUMNS)
    lanes = _lanes(layout, query.text("groups"))
    text = query.text("text")
    matches = loaded.matching(text) if text else None
    cut = loaded.cutter.cut(lanes, start, end, columns, matches=matches)
    return pack_cut(layout, cut, start, end)


class TimelineEvent(Struct, frozen=True):
    """An event of the timeline."""

    lane: int
    event: int
    name: str
    kind: str
    start_ns: int
    dur_ns: int


class EventDetails(TimelineEvent, frozen=True):
    """All details of an event."""

    arguments: str | None
    """The inputs of the operator's call."""
    partner: TimelineEvent | None
    """The event that launched this one, or that it launched; for a gap, the event that ended it."""
    around: tuple[TimelineEvent, ...]
    """The events from which it was called, innermost first."""


def timeline_event_view(run: LoadedRun, query: Query) -> EventDetails:
    """Return the details of one event: inputs, callers, and what it launched."""
    loaded = _loaded(run, query)
    layout = loaded.layout
    number = query.integer("event", default=-1, low=0, high=max(0, len(layout) - 1))
    partner = int(layout.partner[number])
    inside = number if layout.parent[number] >= 0 or partner < 0 else partner
    arguments = loaded.argument_text(number) or (
        loaded.argument_text(int(layout.parent[inside])) if inside != number else None
    )
    return EventDetails(
        **asdict(_event(loaded, number)),
        arguments=arguments,
        partner=_event(loaded, partner) if partner >= 0 else None,
        around=tuple(_event(loaded, outer) for outer in loaded.around(inside)[:MAX_STACK]),
    )


class SearchResult(Struct, frozen=True):
    """The events whose names contain a text; the longest ones are rows."""

    count: int
    total_ns: int
    table: Table


_FOUND = (
    Column("name", "Name", "code"),
    Column("label", "Kind", "text"),
    Column("start_ns", "Starts at", "ns"),
    Column("dur_ns", "Takes", "ns", bar=True),
    Column("event", "Event", "count", detail="verbose"),
    Column("kind", "Kind", "code", detail="verbose"),
)


def timeline_search_view(run: LoadedRun, query: Query) -> SearchResult:
    """Return the events whose names contain a text; the longest ones are rows of a table."""
    text = query.text("text")
    if not text:
        raise QueryError("The request names nothing to search for: add text=WORD.")
    loaded = _loaded(run, query)
    layout = loaded.layout
    matches = np.flatnonzero(loaded.matching(text) & first_of_each(layout))
    longest = matches[np.argsort(-layout.dur_ns[matches], kind="stable")[:MAX_FOUND]]
    events = [_event(loaded, number) for number in longest.tolist()]
    rows = tuple({**asdict(event), "label": event_label(event.kind)} for event in events)
    return SearchResult(
        count=len(matches),
        total_ns=int(layout.dur_ns[matches].sum()),
        table=Table("events", _FOUND, rows, first_rows=6, sort="dur_ns", color="kind"),
    )


def pack_cut(layout: Layout, cut: Cut, start: int, end: int) -> bytes:
    """Return a cut as bytes: length of a JSON head, the head, padding, then an array per column."""
    lanes, counts = np.unique(cut.lane, return_counts=True)
    named = np.unique(cut.name[cut.name >= 0]).tolist()
    head = msgspec.json.encode(
        {
            "from": start,
            "to": end,
            "blocks": len(cut.lane),
            "lanes": lanes.tolist(),
            "counts": counts.tolist(),
            "names": {str(number): layout.names[number][:NAME_LENGTH] for number in named},
        }
    )
    padding = b" " * (-(len(head) + 4) % _ALIGN)
    columns = (
        cut.start_ns.astype("<f8"),
        cut.dur_ns.astype("<f4"),
        cut.count.astype("<i4"),
        cut.event.astype("<i4"),
        cut.name.astype("<i4"),
        cut.kind.astype("<u1"),
        cut.matches.astype("<u1"),
    )
    length = np.array([len(head) + len(padding)], dtype="<u4").tobytes()
    return b"".join([length, head, padding, *(column.tobytes() for column in columns)])


def layout_beside(run: LoadedRun, trace: str) -> LoadedLayout | None:
    """Return the layout beside a trace; None if there is none that this version can read."""
    path = os.path.join(run.folder, trace + LAYOUT_SUFFIX)
    if trace not in run.layouts and run.fs.exists(path):
        with suppress(LayoutFileError):
            run.layouts[trace] = LoadedLayout(*unpack(run.fs.read_bytes(path)))
    return run.layouts.get(trace)


def _prepared(run: LoadedRun, query: Query) -> tuple[str | None, LoadedLayout | None]:
    """Return the trace file that a request names, and its layout."""
    trace = pick_cycle(run, query, LAYOUT_SUFFIX)
    return trace, None if trace is None else layout_beside(run, trace)


def _unprepared(trace: str | None) -> CycleState:
    return "no-cycle" if trace is None else "not-prepared"


def _loaded(run: LoadedRun, query: Query) -> LoadedLayout:
    _, loaded = _prepared(run, query)
    if loaded is None:
        raise QueryError(
            f"{run.name} has no trace that is prepared for the timeline; ask the view timeline "
            "for its state first."
        )
    return loaded


def _lanes(layout: Layout, groups: str) -> Int64:
    """Return the lanes of the named groups ("0,2"), or all lanes if none is named."""
    if not groups:
        return np.arange(len(layout.lane_first) - 1)
    numbers = groups.split(",")
    if not all(_GROUP.fullmatch(text) and int(text) < len(layout.groups) for text in numbers):
        raise QueryError(f"groups={groups[:40]!r}: pass numbers below {len(layout.groups)}.")
    chosen = [layout.groups[int(text)] for text in numbers]
    return np.concatenate([np.arange(group.first, group.first + group.lanes) for group in chosen])


def _group(layout: Layout, index: int) -> Group:
    group = layout.groups[index]
    first, last = layout.lane_first[[group.first, group.first + group.lanes]].tolist()
    return Group(group.kind, group.label[:NAME_LENGTH], group.first, group.lanes, last - first)


def _event(loaded: LoadedLayout, number: int) -> TimelineEvent:
    layout = loaded.layout
    return TimelineEvent(
        lane=int(np.searchsorted(layout.lane_first, number, side="right")) - 1,
        event=number,
        name=layout.names[int(layout.name[number])][: 4 * NAME_LENGTH],
        kind=KINDS[int(layout.kind[number])],
        start_ns=int(layout.start_ns[number]),
        dur_ns=int(layout.dur_ns[number]),
    )
