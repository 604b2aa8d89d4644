"""What was innermost on the host from each of some times on, on one axis of time."""

from bisect import bisect_left, bisect_right

import numpy as np

from lightning_gpuprof.analysis.trace.nesting import Nesting
from lightning_gpuprof.arrays import Int32, Int64
from lightning_gpuprof.traces.timeline import HostEvents

_EVERY = 16
_STEPS = (8, 4, 2, 1)


class Lane:
    """Every thread's, one after the other; each thread's times are moved.

    A trace has two changes for each host event, so only what changed is kept of each: times and
    rows are those of the event.

    Args:
        host: Host events.
        nesting: Of them.
        shift: By thread, how far its times are moved.
        room: The most changes that will be added.
    """

    def __init__(self, host: HostEvents, nesting: Nesting, shift: Int64, room: int) -> None:
        self._change = np.empty(room, dtype=np.int32)  # room that is not used takes no memory
        self._length = 0
        self._samples: list[Int64] = []
        self._columns = (host.start_ns, nesting.end_ns, host.thread, nesting.parent, shift)
        # These read like lists, without the memory of one.
        self._start, self._end, self._thread, self._parent, self._shift = (
            column.data for column in self._columns
        )

    def add(self, at: Int64, change: Int32) -> None:
        """Add changes: the row that begins at a time, or `~row` of the one that ends."""
        self._samples.append(at[-self._length % _EVERY :: _EVERY].copy())
        self._change[self._length : self._length + len(at)] = change
        self._length += len(at)

    def close(self, first: Int64, last: Int64) -> None:
        """Say that all changes were added.

        Args:
            first: Positions at which a thread's uninterrupted work begins.
            last: The first position behind each.
        """
        self._change = self._change[: self._length]
        self._sampled = np.concatenate([np.zeros(0, dtype=np.int64), *self._samples])
        self._samples.clear()
        self._first, self._last = first.data, last.data
        self._at, self._changed = self._sampled.data, self._change.data

    def __len__(self) -> int:
        return self._length

    def before(self, time: int) -> int:
        """Return the position of what was innermost just before a time."""
        sample = bisect_left(self._at, time) - 1
        if sample < 0:
            return -1
        low = sample * _EVERY
        near = range(low + 1, min(low + _EVERY, self._length))
        return low + bisect_left(near, time, key=self.time_of)

    def time_of(self, position: int) -> int:
        """Return since when something was innermost."""
        change = self._changed[position]
        event = change if change >= 0 else ~change
        time: int = self._start[event] if change >= 0 else self._end[event]
        shift: int = self._shift[self._thread[event]]
        return time + shift

    def row_of(self, position: int) -> int:
        """Return what was innermost; -1 where nothing was recorded."""
        change: int = self._changed[position]
        if change >= 0:
            return change
        around: int = self._parent[~change]
        return around

    def run(self, position: int) -> int:
        """Return where the work begins that a position is a part of, itself if of none."""
        index = bisect_right(self._first, position) - 1
        if index < 0 or position >= self._last[index]:
            return position
        begin: int = self._first[index]
        return begin

    def times(self, position: Int64) -> Int64:
        """Return since when something was innermost, of many positions."""
        start, end, thread, _, shift = self._columns
        change = self._change[position]
        event = np.where(change < 0, ~change, change)
        time: Int64 = np.where(change < 0, end[event], start[event])
        time += shift[thread[event]]
        return time

    def look_up(self, position: Int64) -> tuple[Int64, Int32]:
        """Return since when what was innermost, of many positions."""
        return self.times(position), self.rows(position)

    def rows(self, position: Int64 | slice) -> Int32:
        """Return what was innermost, of many positions."""
        change = self._change[position]
        parent = self._columns[3]
        ended = np.flatnonzero(change < 0)
        row: Int32 = change.copy()
        row[ended] = parent[~change[ended]]
        return row

    def last(self, time: Int64, *, before: bool) -> Int64:
        """Return the last positions until some times, or before them; -1 for none."""
        side = "left" if before else "right"
        sample = np.searchsorted(self._sampled, time, side=side) - 1  # type: ignore[call-overload]
        found: Int64 = np.maximum(sample, 0) * _EVERY
        if self._length:
            for step in _STEPS:
                probe = np.minimum(found + step, self._length - 1)
                at = self.times(probe)
                found = np.where((at < time) | ((at == time) & (not before)), probe, found)
        return np.where(sample < 0, -1, found)


class Relay:
    """Pieces of a lane that follow each other in time, as if they were a lane of their own.

    Args:
        lane: The lane.
        at: When each piece begins, rising.
        first: Its first position in the lane; -1 for one place at which nothing was recorded.
        places: How many positions it has.
        by: The thread whose piece it is.
        shift: By thread, how far the lane's times are moved.
    """

    def __init__(
        self, lane: Lane, at: Int64, first: Int32, places: Int32, by: Int32, shift: Int64
    ) -> None:
        self._lane, self._columns = lane, (at, first, by, shift)
        self._stop = np.cumsum(places, dtype=np.int64)
        self._length = int(self._stop[-1])
        self._at, self._first, self._by = at.data, first.data, by.data
        self._shift, self._stops = shift.data, self._stop.data

    def __len__(self) -> int:
        return self._length

    def before(self, time: int) -> int:
        """Return the position of what was innermost just before a time."""
        piece = bisect_left(self._at, time) - 1
        if piece < 0:
            return -1
        begin, first = self._begin(piece), self._first[piece]
        if first < 0:
            return begin
        places = self._stops[piece] - begin
        found = self._lane.before(time + self._shift[self._by[piece]])
        return begin + min(max(found - first, 0), places - 1)

    def time_of(self, position: int) -> int:
        """Return since when something was innermost."""
        piece = bisect_right(self._stops, position)
        inside = position - self._begin(piece)
        if not inside:
            time: int = self._at[piece]
            return time
        shift: int = self._shift[self._by[piece]]
        return self._lane.time_of(self._first[piece] + inside) - shift

    def row_of(self, position: int) -> int:
        """Return what was innermost."""
        piece = bisect_right(self._stops, position)
        first = self._first[piece]
        return -1 if first < 0 else self._lane.row_of(first + position - self._begin(piece))

    def run(self, position: int) -> int:
        """Return where what a position is a part of begins: nothing interrupts it."""
        return 0

    def look_up(self, position: Int64) -> tuple[Int64, Int32]:
        """Return since when what was innermost, of many positions."""
        at, first, by, shift = self._columns
        piece, inside = self._places(position)
        time: Int64 = at[piece]
        moved = np.flatnonzero(inside > 0)
        start = first[piece]
        time[moved] = self._lane.times(start[moved] + inside[moved]) - shift[by[piece[moved]]]
        row = np.full(len(position), -1, dtype=np.int32)
        known = np.flatnonzero(start >= 0)
        row[known] = self._lane.rows(start[known] + inside[known])
        return time, row

    def rows(self, position: Int64) -> Int32:
        """Return what was innermost, of many positions."""
        first = self._columns[1]
        piece, inside = self._places(position)
        row = np.full(len(position), -1, dtype=np.int32)
        known = np.flatnonzero(first[piece] >= 0)
        row[known] = self._lane.rows(first[piece[known]] + inside[known])
        return row

    def _places(self, position: Int64) -> tuple[Int64, Int64]:
        """Return the piece of each position, and which of the piece's it is."""
        piece = np.searchsorted(self._stop, position, side="right")
        begin = np.where(piece > 0, self._stop[piece - 1], 0)
        return piece, position - begin

    def _begin(self, piece: int) -> int:
        return self._stops[piece - 1] if piece else 0
