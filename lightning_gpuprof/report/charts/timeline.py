"""The timeline of a profiler cycle: what is there, what a range shows, one event, a search."""

import os
import re
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from lightning_gpuprof.analysis.timeline.call_tree import first_of_each
from lightning_gpuprof.analysis.timeline.cut import Cut
from lightning_gpuprof.analysis.timeline.layout import KINDS, Layout
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.files import LAYOUT_SUFFIX
from lightning_gpuprof.report.charts.layout_file import LayoutFileError, LoadedLayout, unpack
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.charts.traces import pick_cycle

MAX_COLUMNS = 12_000
MAX_FOUND = 200
MAX_STACK = 60
NAME_LENGTH = 300
_ALIGN = 8
_GROUP = re.compile(r"[0-9]{1,9}")


def timeline_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return what a cycle's timeline holds: its lanes, its length, and whether it is prepared."""
    found, loaded = _prepared(run, query)
    if loaded is None:
        return found
    layout = loaded.layout
    return {
        **found,
        "span_ns": layout.span,
        "events": len(layout),
        "kinds": KINDS,
        "used": [KINDS[i] for i in np.unique(layout.kind).tolist()],
        "groups": [_group(layout, index) for index in range(len(layout.groups))],
        "memory": loaded.memory_tracks(),
    }


def call_tree_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return who called what in a cycle, as columns with a parent index."""
    found, loaded = _prepared(run, query)
    if loaded is None:
        return found
    tree, names = loaded.tree, loaded.layout.names
    return {
        **found,
        "name": [names[i][:NAME_LENGTH] for i in tree.name.tolist()],
        "kind": [KINDS[i] for i in tree.kind.tolist()],
        "parent": tree.parent.tolist(),
        "count": tree.count.tolist(),
        "host_ns": tree.host_ns.tolist(),
        "device_ns": tree.device_ns.tolist(),
        "operator_bytes": loaded.operator_bytes(),
    }


def timeline_cut_view(run: LoadedRun, query: Query) -> bytes:
    """Return the blocks that a range of time shows, in columns; http_api.md has the layout."""
    loaded = _loaded(run, query)
    layout = loaded.layout
    first, last = layout.span
    start = query.integer("from", default=first, low=-(2**53), high=2**53)
    end = query.integer("to", default=last, low=start, high=2**53)
    columns = query.integer("columns", default=2000, low=1, high=MAX_COLUMNS)
    lanes = _lanes(layout, query.text("groups"))
    text = query.text("text")
    found = loaded.found(text) if text else None
    cut = loaded.cutter.cut(lanes, start, end, columns, found=found)
    return pack_cut(layout, cut, start, end)


def timeline_event_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return all that is known of one event: shapes, what is around it, what it launched."""
    loaded = _loaded(run, query)
    layout = loaded.layout
    number = query.integer("event", default=-1, low=0, high=max(0, len(layout) - 1))
    partner = int(layout.partner[number])
    inside = number if layout.parent[number] >= 0 or partner < 0 else partner
    arguments = loaded.argument_text(number) or (
        loaded.argument_text(int(layout.parent[inside])) if inside != number else None
    )
    return {
        **_event(loaded, number),
        "arguments": arguments,
        "partner": _event(loaded, partner) if partner >= 0 else None,
        "around": [_event(loaded, one) for one in loaded.around(inside)[:MAX_STACK]],
    }


def timeline_search_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the events whose names hold a text, the longest ones one by one."""
    text = query.text("text")
    if not text:
        raise QueryError("The request names nothing to search for: add text=WORD.")
    loaded = _loaded(run, query)
    layout = loaded.layout
    found = np.flatnonzero(loaded.found(text) & first_of_each(layout))
    longest = found[np.argsort(-layout.dur_ns[found], kind="stable")[:MAX_FOUND]]
    return {
        "count": len(found),
        "total_ns": int(layout.dur_ns[found].sum()),
        "events": [_event(loaded, one) for one in longest.tolist()],
    }


def pack_cut(layout: Layout, cut: Cut, start: int, end: int) -> bytes:
    """Lay a cut out: length of a JSON head, the head, padding, then one array per column."""
    lanes, counts = np.unique(cut.lane, return_counts=True)
    named = np.unique(cut.name[cut.name >= 0]).tolist()
    head = msgspec.json.encode(
        {
            "from": start,
            "to": end,
            "blocks": len(cut.lane),
            "lanes": lanes.tolist(),
            "counts": counts.tolist(),
            "names": {str(i): layout.names[i][:NAME_LENGTH] for i in named},
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
        cut.found.astype("<u1"),
    )
    length = np.array([len(head) + len(padding)], dtype="<u4").tobytes()
    return b"".join([length, head, padding, *(column.tobytes() for column in columns)])


def _prepared(run: LoadedRun, query: Query) -> tuple[dict[str, Any], LoadedLayout | None]:
    """Return how a view of a cycle begins, and its layout where this version can read one."""
    wanted = pick_cycle(run, query, LAYOUT_SUFFIX)
    if wanted is None:
        return {"trace": None, "state": "no-cycle"}, None
    path = os.path.join(run.folder, wanted + LAYOUT_SUFFIX)
    if wanted not in run.layouts and run.fs.exists(path):
        with suppress(LayoutFileError):
            run.layouts[wanted] = LoadedLayout(*unpack(run.fs.read_bytes(path)))
    loaded = run.layouts.get(wanted)
    return {"trace": wanted, "state": "prepared" if loaded else "not-prepared"}, loaded


def _loaded(run: LoadedRun, query: Query) -> LoadedLayout:
    _, loaded = _prepared(run, query)
    if loaded is None:
        raise QueryError(
            f"{run.name} has no trace that is prepared for the timeline; ask the view timeline "
            "for its state first."
        )
    return loaded


def _lanes(layout: Layout, groups: str) -> Int64:
    """Return the lanes of the named groups ("0,2"), all where none is named."""
    if not groups:
        return np.arange(len(layout.lane_first) - 1)
    numbers = groups.split(",")
    if not all(_GROUP.fullmatch(one) and int(one) < len(layout.groups) for one in numbers):
        raise QueryError(f"groups={groups[:40]!r}: pass numbers below {len(layout.groups)}.")
    chosen = [layout.groups[int(one)] for one in numbers]
    return np.concatenate([np.arange(one.first, one.first + one.lanes) for one in chosen])


def _group(layout: Layout, index: int) -> dict[str, Any]:
    group = layout.groups[index]
    first, last = layout.lane_first[[group.first, group.first + group.lanes]].tolist()
    return {
        "kind": group.kind,
        "label": group.label[:NAME_LENGTH],
        "first": group.first,
        "lanes": group.lanes,
        "events": last - first,
    }


def _event(loaded: LoadedLayout, number: int) -> dict[str, Any]:
    layout = loaded.layout
    return {
        "lane": int(np.searchsorted(layout.lane_first, number, side="right")) - 1,
        "event": number,
        "name": layout.names[int(layout.name[number])][: 4 * NAME_LENGTH],
        "kind": KINDS[int(layout.kind[number])],
        "start_ns": int(layout.start_ns[number]),
        "dur_ns": int(layout.dur_ns[number]),
    }
