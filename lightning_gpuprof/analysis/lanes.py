"""What was innermost on the host from each of some times on, on one axis of time."""

from bisect import bisect_left, bisect_right

import numpy as np

from lightning_gpuprof.traces.timeline import Int32, Int64


class Lane:
    """Every thread's, one after the other; each thread's times are moved.

    Args:
        at: Times, rising.
        row: Host row from then until the next time, -1 where nothing was recorded.
        runs: Positions at which a thread's uninterrupted work begins, or a time without any.
    """

    def __init__(self, at: Int64, row: Int32, runs: Int64) -> None:
        self.at, self.row, self.runs = at, row, runs
        # These read like lists, without the memory of one.
        self._at, self._row, self._runs = at.data, row.data, runs.data

    def __len__(self) -> int:
        return len(self.at)

    def before(self, time: int) -> int:
        """Return the position of what was innermost just before a time."""
        return bisect_left(self._at, time) - 1

    def between(self, time: int, low: int, high: int) -> int:
        """Return the position just before a time, of some positions; the first at least."""
        return bisect_left(self._at, time, low + 1, high) - 1

    def time_of(self, position: int) -> int:
        """Return since when something was innermost."""
        time: int = self._at[position]
        return time

    def row_of(self, position: int) -> int:
        """Return what was innermost."""
        row: int = self._row[position]
        return row

    def run(self, position: int) -> int:
        """Return where the work begins that a position is a part of."""
        begin: int = self._runs[bisect_right(self._runs, position) - 1]
        return begin

    def look_up(self, position: Int64) -> tuple[Int64, Int32]:
        """Return times and rows of positions."""
        return self.at[position], self.row[position]


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
        found = self._lane.between(time + self._shift[self._by[piece]], first, first + places)
        return begin + found - first

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
        """Return times and rows of positions."""
        at, first, by, shift = self._columns
        piece = np.searchsorted(self._stop, position, side="right")
        inside = position - np.append(0, self._stop)[piece]
        time, row = at[piece], np.full(len(position), -1, dtype=np.int32)
        known = first[piece] >= 0
        moved, row[known] = self._lane.look_up((first[piece] + inside)[known])
        time[known] = np.where(inside[known] > 0, moved - shift[by[piece[known]]], time[known])
        return time, row

    def _begin(self, piece: int) -> int:
        return self._stops[piece - 1] if piece else 0
