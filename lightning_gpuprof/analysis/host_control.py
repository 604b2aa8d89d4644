"""Which host event was innermost at any moment, and which thread was in control."""

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from lightning_gpuprof.analysis.host_activity import ACTIVITIES, in_order
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Int8, Int64, Timeline

Bool = npt.NDArray[np.bool_]
_IDLE = (ACTIVITIES.index("region"), ACTIVITIES.index("python"))
"""In these a thread may as well be waiting for another: autograd's, say."""


class Lane(Struct, frozen=True):
    """What was innermost on the host, from each of some times on.

    Args:
        at: Times, rising.
        row: Host row from then until the next time, -1 where nothing was recorded.
        run: Position at which the thread's uninterrupted work, of which this is a part, begins.
    """

    at: Int64
    row: Int64
    run: Int64


class HostControl:
    """The threads that run operators or launch work, and what each is doing when.

    Args:
        timeline: The trace. Python calls are left out, so that recording stacks changes nothing.
        nesting: Of its host events.
        launches: Joined to its device events.
        activity: Of its host events.
        begin: Where the trace begins.

    Attributes:
        own: Every thread's lane, one after the other: a thread's times are moved by `shift`.
        shift: By index of the thread.
        main: Who was in control: the thread that works, of several the one that goes on longest;
            where none works, one on which anything is recorded.
    """

    def __init__(
        self,
        timeline: Timeline,
        nesting: Nesting,
        launches: Launches,
        activity: Int8,
        *,
        begin: int,
    ) -> None:
        host = timeline.host
        python = host.category == CATEGORY_ID["python_function"]
        # One place more: a thread that is not recorded is -1.
        takes_part = np.zeros(int(host.thread.max(initial=-1)) + 2, dtype=np.bool_)
        takes_part[host.thread[host.category == CATEGORY_ID["cpu_op"]]] = True
        takes_part[host.thread[launches.calls]] = True
        rows = np.flatnonzero(takes_part[host.thread] & ~python & (nesting.end_ns > host.start_ns))
        self.begin = begin
        self.end = int(nesting.end_ns[rows].max(initial=-1))
        # Laid end to end, all threads' times are one axis, and one sort does for all.
        width = self.end - self.begin + 1
        self.shift = (np.cumsum(takes_part) - 1) * width
        self.own = _own_lane(host.start_ns, nesting, rows, self.shift[host.thread], activity)
        self.main = self._main_lane(host.thread, activity)

    def _main_lane(self, thread: npt.NDArray[np.int32], activity: Int8) -> Lane:
        own, nobody = self.own, np.int64(-1)
        in_control = _Shared.of(self, _works(own.row, activity), thread)
        recorded = _Shared.of(self, own.row >= 0, thread)
        borders = (in_control.start, in_control.end, recorded.start, recorded.end)
        at = np.sort(np.concatenate(([self.begin], *borders)))
        at = at[np.append(at[1:] != at[:-1], True)]
        by = in_control.thread_at(at)
        by = np.where(by >= 0, by, recorded.thread_at(at))
        # What that thread was doing from each border to the next.
        end = np.append(at[1:], max(self.end, self.begin))
        low = np.searchsorted(own.at, at + self.shift[by], side="right") - 1
        high = np.maximum(np.searchsorted(own.at, end + self.shift[by], side="left"), low + 1)
        pieces = np.where(by >= 0, high - low, 1)
        piece = np.repeat(np.arange(len(at)), pieces)
        entry = np.arange(len(piece)) - np.repeat(np.cumsum(pieces) - pieces - low, pieces)
        nothing = by[piece] < 0
        entry[nothing] = 0
        row = np.where(nothing, nobody, np.append(own.row, -1)[entry])
        start = np.maximum(at[piece], np.append(own.at, 0)[entry] - self.shift[by[piece]])
        start = np.where(nothing, at[piece], start)
        changes = np.append(True, row[1:] != row[:-1])
        return Lane(start[changes], row[changes], np.zeros(int(changes.sum()), dtype=np.int64))


class _Shared(Struct, frozen=True):
    """Intervals that share out the time in which any thread does something; disjoint, rising."""

    start: Int64
    end: Int64
    thread: Int64

    @classmethod
    def of(cls, control: HostControl, does: Bool, thread: npt.NDArray[np.int32]) -> "_Shared":
        """Give each moment to the thread that goes on longest, of those that do something then.

        That is whom a walk back in time would be with: it stays with a thread until its work
        began, then goes on with another that works.
        """
        own = control.own
        edge = np.diff(does.astype(np.int8), prepend=np.int8(0))
        first, last = np.flatnonzero(edge > 0), np.flatnonzero(edge < 0)
        by = thread[own.row[first]].astype(np.int64)
        start, end = own.at[first] - control.shift[by], own.at[last] - control.shift[by]
        order = np.argsort(start, kind="stable")
        start, end, by = start[order], end[order], by[order]
        reach = np.maximum.accumulate(end)
        leads = np.append(True, end[1:] > reach[:-1])[: len(end)]
        start, end, by = start[leads], end[leads], by[leads]
        return cls(start, np.minimum(end, np.append(start[1:], end[-1:])), by)

    def thread_at(self, time: Int64) -> Int64:
        """Return the thread that has each moment, -1 for none."""
        at = np.searchsorted(self.start, time, side="right") - 1
        inside = (at >= 0) & (time < np.append(self.end, 0)[at])
        return np.where(inside, np.append(self.thread, -1)[at], -1)


def _works(row: Int64, activity: Int8) -> Bool:
    """Tell whether innermost events are work of their thread, not perhaps a wait."""
    works = np.append(np.isin(activity, _IDLE, invert=True), False)
    return works[row]


def _own_lane(start_ns: Int64, nesting: Nesting, rows: Int64, shift: Int64, activity: Int8) -> Lane:
    level = nesting.depth[rows].astype(np.int64)
    at = np.concatenate((nesting.end_ns[rows], start_ns[rows])) + np.tile(shift[rows], 2)
    inner = np.concatenate((nesting.parent[rows].astype(np.int64), rows))
    # At one moment: inner events end before outer ones, then outer ones start before inner ones.
    order = in_order(at, np.concatenate((-level - 1, level + 1)))
    at, inner = at[order], inner[order]
    last = np.append(at[1:] != at[:-1], True)[: len(at)]
    at, inner = at[last], inner[last]
    works = _works(inner, activity)
    begins = works & ~np.append(False, works[:-1])[: len(works)]
    run = np.maximum.accumulate(np.where(begins | ~works, np.arange(len(at)), 0))
    return Lane(at, inner, run)
