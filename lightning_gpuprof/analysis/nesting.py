"""Which host event lies inside which: parents, and self time.

Events of one thread nest like calls. Files with whole microseconds break that by rounding
(a child may end after its parent), so ends are first cut to the parent's.
"""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.traces.timeline import HostEvents, Int64

_MAX_ROUNDS = 4


@dataclass(frozen=True)
class Nesting:
    """Parents of host events; rows as in the table they were made from.

    Args:
        parent: Row of the innermost event around each, -1 for none.
        depth: Number of events around each.
        end_ns: End of each, cut to its parent's end.
        order: Rows by thread, then start, then depth: a parent stands before its children.
    """

    parent: Int64
    depth: Int64
    end_ns: Int64
    order: Int64

    def children_sum(self, values: Int64) -> Int64:
        """Sum a value over each event's direct children."""
        has = self.parent >= 0
        sums: Int64 = np.bincount(
            self.parent[has], weights=values[has], minlength=len(self.parent)
        ).astype(np.int64)
        return sums

    def subtree_sum(self, values: Int64) -> Int64:
        """Sum a value over each event and all that lies inside it."""
        total = values.astype(np.int64)
        for level in range(int(self.depth.max(initial=0)), 0, -1):
            rows = np.flatnonzero(self.depth == level)
            np.add.at(total, self.parent[rows], total[rows])
        return total

    def inherited(self, own: Int64) -> Int64:
        """Give each event its own value, or the nearest one around it where its own is -1."""
        result: Int64 = own.copy()
        for level in range(1, int(self.depth.max(initial=0)) + 1):
            rows = np.flatnonzero((self.depth == level) & (result < 0))
            result[rows] = result[self.parent[rows]]
        return result


def nest(host: HostEvents) -> Nesting:
    """Find the parents of host events, thread by thread.

    >>> from lightning_gpuprof.traces.timeline import HostEvents, make_table
    >>> host = make_table(HostEvents, start_ns=[0, 1, 5], dur_ns=[9, 3, 1], thread=[0, 0, 0])
    >>> nest(host).parent.tolist()
    [-1, 0, 0]
    """
    rows = len(host)
    parent = np.full(rows, -1, dtype=np.int64)
    depth = np.zeros(rows, dtype=np.int64)
    end = host.end_ns.copy()
    order = np.argsort(host.thread, kind="stable")  # the table is sorted by start already
    borders = np.flatnonzero(np.diff(host.thread[order])) + 1
    for part in np.split(order, borders):
        if len(part):
            _nest_thread(part, host.start_ns[part], parent, depth, end)
    return Nesting(parent, depth, end, order)


def _nest_thread(part: Int64, start: Int64, parent: Int64, depth: Int64, end: Int64) -> None:
    """Fill in the rows `part` of one thread, which are sorted by start, longest first."""
    ends = end[part]
    for _ in range(_MAX_ROUNDS):
        levels = _levels(start, ends)
        parents = _parents(levels)
        cut = ends.copy()
        for level in range(1, int(levels.max()) + 1):
            rows = np.flatnonzero(levels == level)
            cut[rows] = np.minimum(cut[rows], cut[parents[rows]])
        if (cut == ends).all():
            break
        ends = cut
    end[part] = ends
    depth[part] = levels
    parent[part] = np.where(parents < 0, -1, part[parents])


def _levels(start: Int64, end: Int64) -> Int64:
    """Count the earlier events that have not ended when each starts."""
    # An event without length would count as ended before it began.
    ended = np.sort(np.maximum(end, start + 1))
    levels = np.arange(len(start)) - np.searchsorted(ended, start, side="right")
    return levels.astype(np.int64)


def _parents(levels: Int64) -> Int64:
    """Return the last earlier event one level up, as an index; -1 at the top."""
    parents = np.full(len(levels), -1, dtype=np.int64)
    above = np.flatnonzero(levels == 0)
    for level in range(1, int(levels.max(initial=0)) + 1):
        rows = np.flatnonzero(levels == level)
        parents[rows] = above[np.searchsorted(above, rows) - 1]
        above = rows
    return parents
