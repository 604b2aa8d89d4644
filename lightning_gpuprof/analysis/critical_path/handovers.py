"""Along which thread the critical path goes at any time, decided before the walk.

Time is divided into intervals, at whose borders a thread begins or ceases to work, to be in a
region or to wait. Going back in time, the path stays on a thread as long as it works. From a thread
that does not work it goes over to one that does. Where none works it stays on a thread in an open
region, or goes over to one with such a region, else it stays.

So the thread that the path goes over to depends on the interval alone, and so does the interval in
which it leaves that thread again. Both are computed for all intervals at once. The walk then makes
a look-up for each change of threads.
"""

from bisect import bisect_right

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.critical_path.lanes import NOTHING, OPEN, WAITS, WORKS, Stretches
from lightning_gpuprof.arrays import Int8, Int32, Int64, Mask


class Handovers(Struct, frozen=True):
    """What the path does in each interval.

    Args:
        start_ns: When each begins.
        lane: Where the path goes if it does not stay on its lane; -1 where it stays on any.
        leaves: The last interval before in which a path on `lane` leaves it, -1 for none; or
            `-2 - i`, if a call that may have waited comes before that, in interval `i`.
        worked: The last interval, up to each, in which any lane worked; -1 for none.
        opened: The last interval, up to each, with an open region on any lane; -1 for none.
        begins: The interval in which each stretch begins, plus the number of intervals for every
            lane before its own.
    """

    start_ns: Int64
    lane: Int32
    leaves: Int32
    worked: Int32
    opened: Int32
    begins: Int64
    stretches: Stretches

    def worked_last(self, interval: int) -> int:
        """Return the lane that worked last up to an interval, or the first lane; -1 for none."""
        if (worked := self.worked[interval]) >= 0:
            return int(self.lane[worked])
        return min(0, len(self.stretches.lane) - 1)

    def stretch(self, interval: int, lane: int) -> tuple[int, int]:
        """Return from when on, up to an interval, a path on a lane does the same.

        That is an interval, the one after the given one if the path leaves the lane at once. Also
        returns the host row of a call that may have waited, -1 for none.
        """
        stretch = bisect_right(self.begins.data, lane * len(self.lane) + interval) - 1
        kind = self.stretches.kind[stretch]
        first = int(self.begins[stretch]) - lane * len(self.lane)
        if kind < WORKS:
            first = max(first, int(self.worked[interval]) + 1)
        if kind == NOTHING:
            first = max(first, int(self.opened[interval]) + 1)
        return first, int(self.stretches.row[stretch]) if kind == WAITS else -1

    def passed(self, intervals: Int32) -> Int64:
        """Return begin and end (columns) of the parts of the path that end with some intervals.

        They lead to where the path leaves the interval's lane, or to a call that may have waited.
        """
        left = self.leaves[intervals]
        begin = self.start_ns[np.maximum(left, -2 - left) + 1]
        return np.stack((begin, self.start_ns[intervals + 1]), axis=1)


def handovers(stretches: Stretches, begin: int) -> Handovers:
    """Decide what a path does in each interval from its begin on."""
    ordered = np.sort(np.append(stretches.start_ns, begin))
    start_ns = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    count = len(start_ns)
    first = np.searchsorted(start_ns, stretches.start_ns)
    lanes = range(int(stretches.lane.max(initial=-1)) + 1)
    borders = np.searchsorted(stretches.lane, np.arange(len(lanes) + 1))

    def kinds(lane: int) -> Int8:
        own = slice(*borders[lane : lane + 2])
        return np.repeat(stretches.kind[own], np.diff(first[own], append=count))

    works, open_ = np.full((2, count), -1, dtype=np.int32)
    for lane in lanes:
        kind = kinds(lane)
        works[kind >= WORKS] = lane
        open_[(kind == OPEN) & (open_ < 0)] = lane
    chosen = np.where(works >= 0, works, open_)
    leaves = np.full(count, -1, dtype=np.int32)
    for lane in np.flatnonzero(np.bincount(chosen + 1)[1:]).tolist():
        kind, own = kinds(lane), np.flatnonzero(chosen == lane)
        elsewhere = (kind < WORKS) & ((works >= 0) | ((kind == NOTHING) & (open_ >= 0)))
        left, waits = _latest(elsewhere)[own], _latest(kind == WAITS)[own]
        leaves[own] = np.where(waits > left, -2 - waits, left)
    begins = first + stretches.lane.astype(np.int64) * count
    worked, opened = _latest(works >= 0), _latest(open_ >= 0)
    return Handovers(start_ns, chosen, leaves, worked, opened, begins, stretches)


def _latest(mask: Mask) -> Int32:
    """Return the last index, up to each, at which a mask is true; -1 for none."""
    index = np.arange(len(mask), dtype=np.int32)
    latest: Int32 = np.maximum.accumulate(np.where(mask, index, np.int32(-1)))
    return latest
