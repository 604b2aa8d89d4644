"""How the events of a trace belong to each other: nesting on the host, launches and their work."""

from typing import TypeVar

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import distinct
from lightning_gpuprof.arrays import Int8, Int32, Int64
from lightning_gpuprof.traces.gate import launch_rows
from lightning_gpuprof.traces.timeline import CATEGORY_ID, HostEvents, Timeline


class Launches(Struct, frozen=True):
    """The host row of each device row's launching call (-1 for none), and all launching calls."""

    call: Int32
    calls: Int32


_CHUNK = 1 << 14
_FEW = 1 << 14
"""So many events are nested faster one by one than as arrays."""
_Index = TypeVar("_Index", Int64, Int8)
_FOREVER = 1 << 63


class Nesting(Struct, frozen=True):
    """Parents of host events; rows as in the table they were made from.

    Args:
        end_ns: End of each, cut to its parent's end.
    """

    parent: Int32
    depth: Int32
    end_ns: Int64

    def inherited(self, own: _Index) -> _Index:
        """Give each event its own value, or the nearest one around it where its own is -1."""
        result: _Index = own.copy()
        rows = np.flatnonzero(own < 0)
        above = self.parent[rows]
        while len(rows):
            rows, above = rows[above >= 0], above[above >= 0]
            inherited = own[above]
            result[rows] = inherited
            missing = inherited < 0
            rows, above = rows[missing], self.parent[above[missing]]
        return result


def rows_by_thread(host: HostEvents) -> list[Int32]:
    """Return the rows of each thread that has events, in order."""
    threads = host.thread
    if len(threads) and threads.max() < np.iinfo(np.int16).max:
        threads = threads.astype(np.int16)  # numpy sorts these by radix: linear time
    order = np.argsort(threads, kind="stable").astype(np.int32)
    parts = np.split(order, np.flatnonzero(np.diff(threads[order])) + 1)
    return [part for part in parts if len(part)]


def nest(host: HostEvents, *, python: bool = False) -> Nesting:
    """Find the parents of host events, thread by thread.

    Without `python`, Python calls are not nested: a region that begins in one call (`__enter__`)
    and ends in another would be cut to the first, and recording stacks would change other figures.

    >>> from lightning_gpuprof.traces.timeline import HostEvents, make_table
    >>> host = make_table(HostEvents, start_ns=[0, 1, 5], dur_ns=[9, 3, 1], thread=[0, 0, 0])
    >>> nest(host).parent.tolist()
    [-1, 0, 0]
    """
    rows = len(host)
    parent = np.full(rows, -1, dtype=np.int32)
    depth = np.zeros(rows, dtype=np.int32)
    end = host.end_ns
    for part in rows_by_thread(host):
        if not python:
            part = part[host.category[part] != CATEGORY_ID["python_function"]]
        if len(part):
            _nest_thread(part, host.start_ns[part], parent, depth, end)
    return Nesting(parent, depth, end)


def _nest_thread(part: Int32, start: Int64, parent: Int32, depth: Int32, end: Int64) -> None:
    """Fill in the rows `part` of one thread, which are sorted by start, longest first."""
    # Most events end before the next one starts: nothing can lie inside those.
    is_leaf = np.append(start[1:] >= end[part[:-1]], True)
    inner = np.flatnonzero(~is_leaf)
    # The same holds among the others, as long as that leaves out enough of them.
    few = len(inner) < _FEW or len(inner) > 0.75 * len(part)
    (_nest_inner if few else _nest_thread)(part[inner], start[inner], parent, depth, end)
    rows, begun = part[is_leaf], start[is_leaf]
    around = np.append(part[inner], -1)[np.cumsum(~is_leaf)[is_leaf] - 1]
    while (over := (around >= 0) & (end[around] <= begun)).any():
        around = np.where(over, parent[around], around)
    parent[rows] = around
    depth[rows] = np.where(around >= 0, depth[around] + 1, 0)
    end[rows] = np.where(around >= 0, np.minimum(end[rows], end[around]), end[rows])


def _nest_inner(part: Int32, start: Int64, parent: Int32, depth: Int32, end: Int64) -> None:
    """Fill in rows that may have children.

    A plain loop with a stack: it is as fast as array operations are here, and right where
    events overlap without nesting, which they cannot see. In chunks, for the memory's sake.
    """
    open_ends, open_rows = [_FOREVER], [-1]
    for low in range(0, len(part), _CHUNK):
        rows = part[low : low + _CHUNK]
        parents, depths, ends = [], [], []
        for row, begun, ended in zip(
            rows.tolist(), start[low : low + _CHUNK].tolist(), end[rows].tolist(), strict=True
        ):
            while open_ends[-1] <= begun:
                open_ends.pop()
                open_rows.pop()
            latest = open_ends[-1]
            if ended > latest:
                ended = latest
            parents.append(open_rows[-1])
            depths.append(len(open_rows) - 1)
            ends.append(ended)
            open_ends.append(ended)
            open_rows.append(row)
        parent[rows], depth[rows], end[rows] = parents, depths, ends


class LinkedTrace(Struct, frozen=True):
    """A trace with the nesting of its host events and the launching calls of its device events."""

    timeline: Timeline
    nesting: Nesting
    launches: Launches


def link(timeline: Timeline) -> LinkedTrace:
    """Join the events of a trace: parents on the host, and launches with their work."""
    call = launch_rows(timeline)
    launches = Launches(call, distinct(call[call >= 0]).astype(np.int32))
    return LinkedTrace(timeline, nest(timeline.host), launches)
