"""Which host event was innermost at any moment, and which thread was in control."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.critical_path.lanes import Lane, Relay
from lightning_gpuprof.analysis.trace.grouping import looked_up
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, in_order
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace.nesting import Nesting, rows_by_thread
from lightning_gpuprof.arrays import Int8, Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import CATEGORY_ID

_BLOCK = 1 << 14
"""Events that are gone through at a time: all at once would take ten times the lanes' memory."""
_FOREVER = 2**63 - 1
_IDLE = (ACTIVITIES.index("region"), ACTIVITIES.index("python"))
"""In these a thread may as well be waiting for another: autograd's, say."""


class HostControl:
    """The threads that run operators or launch work, and what each is doing when.

    Args:
        trace: The trace. Python calls are left out, so that recording stacks changes nothing.
        activity: Of its host events.
        begin: Where the trace begins.

    Attributes:
        own: Every thread's lane, one after the other: a thread's times are moved by `shift`.
        shift: By index of the thread.
        main: Who was in control: the thread that works, of several the one that goes on longest;
            where none works, one on which anything is recorded.
    """

    def __init__(self, trace: LinkedTrace, activity: Int8, *, begin: int) -> None:
        host, nesting = trace.timeline.host, trace.nesting
        python = host.category == CATEGORY_ID["python_function"]
        # One place more: a thread that is not recorded is -1.
        takes_part = np.zeros(int(host.thread.max(initial=-1)) + 2, dtype=np.bool_)
        takes_part[host.thread[host.category == CATEGORY_ID["cpu_op"]]] = True
        takes_part[host.thread[trace.launches.calls]] = True
        counts = looked_up(takes_part, host.thread) & ~python & (nesting.end_ns > host.start_ns)
        del python
        self.begin = begin
        self.end = int(nesting.end_ns.max(where=counts, initial=-1))
        # Laid end to end, all threads' times are one axis.
        width = self.end - self.begin + 1
        self.shift = (np.cumsum(takes_part) - 1) * width
        self.own = own = Lane(host, nesting, self.shift, 2 * int(counts.sum()))
        threads = [
            (int(self.shift[host.thread[part[0]]]), part[counts[part]].astype(np.int32))
            for part in rows_by_thread(host)
        ]
        for shift, part in sorted(threads, key=lambda pair: pair[0]):
            for at, change in _changes(host.start_ns, nesting, part):
                own.add(at + shift, change)
        del threads, counts
        works, recorded = _Stretches(), _Stretches()
        in_work = np.append(np.isin(activity, _IDLE, invert=True), False)  # not perhaps a wait
        for low in range(0, len(own), _BLOCK):
            row = own.rows(slice(low, min(low + _BLOCK, len(own))))
            works.add(in_work[row])
            recorded.add(row >= 0)
        first, last = works.borders()
        own.close(first, last)
        self.main = self._main_lane(
            _Shared.of(self, first, last, host.thread),
            _Shared.of(self, *recorded.borders(), host.thread),
        )

    def _main_lane(self, in_control: "_Shared", recorded: "_Shared") -> Relay:
        own = self.own
        borders = (in_control.start, in_control.end, recorded.start, recorded.end)
        at = np.sort(np.concatenate(([self.begin], *borders)))
        del borders
        at = at[np.append(at[1:] != at[:-1], True)]
        finish, latest = max(self.end, self.begin), np.int32(-2)
        starts, columns = [], []
        for low in range(0, len(at), _BLOCK):
            # What the thread in control was doing from each border to the next.
            begin = at[low : low + _BLOCK]
            end = np.append(at[low + 1 : low + 1 + _BLOCK], finish)[: len(begin)]
            by = in_control.thread_at(begin)
            by = np.where(by >= 0, by, recorded.thread_at(begin))
            known, shift = by >= 0, self.shift[by]
            first = own.last(begin + shift, before=False)
            stop = np.maximum(own.last(end + shift, before=True), first) + 1
            rows = np.full((2, len(begin)), -1, dtype=np.int32)
            rows[:, known] = own.rows(first[known]), own.rows(stop[known] - 1)
            # Where nothing changes at a border, there is none.
            same = rows[0] == np.append(latest, rows[1, :-1])
            latest = rows[1, -1]
            first[~known], stop[~known] = -1, 0
            first += same
            some = stop > first
            moved = same & some
            begin[moved] = own.times(first[moved]) - shift[moved]
            starts.append(begin[some])
            columns.append(np.array((first, stop - first, by), dtype=np.int32)[:, some])
        first, places, by = np.concatenate(columns, axis=1)
        return Relay(own, np.concatenate(starts), first, places, by, self.shift)


class _Stretches:
    """Positions from which, and until which, something holds; told some at a time."""

    def __init__(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        self._first, self._last = [none], [none]
        self._told, self._latest = 0, np.int8(0)

    def add(self, holds: Mask) -> None:
        """Tell of some more positions whether it holds."""
        edge = np.diff(holds.astype(np.int8), prepend=self._latest)
        self._first.append(self._told + np.flatnonzero(edge > 0))
        self._last.append(self._told + np.flatnonzero(edge < 0))
        self._told += len(holds)
        self._latest = np.int8(holds[-1])

    def borders(self) -> tuple[Int64, Int64]:
        """Return the first position of each stretch, and the first behind it."""
        return np.concatenate(self._first), np.concatenate(self._last)


class _Shared(Struct, frozen=True):
    """Intervals that share out the time in which any thread does something; disjoint, rising."""

    start: Int64
    end: Int64
    thread: Int32

    @classmethod
    def of(cls, control: HostControl, first: Int64, last: Int64, thread: Int32) -> "_Shared":
        """Give each moment to the thread that goes on longest, of those that do something then.

        That is from each `first` to the `last` beside it, positions in the threads' lane.

        That is whom a walk back in time would be with: it stays with a thread until its work
        began, then goes on with another that works.
        """
        own = control.own
        by = thread[own.rows(first)]
        start, end = own.times(first) - control.shift[by], own.times(last) - control.shift[by]
        order = np.argsort(start, kind="stable")
        start, end, by = start[order], end[order], by[order]
        reach = np.maximum.accumulate(end)
        leads = np.append(True, end[1:] > reach[:-1])[: len(end)]
        start, end, by = start[leads], end[leads], by[leads]
        return cls(start, np.minimum(end, np.append(start[1:], end[-1:])), by)

    def thread_at(self, time: Int64) -> Int32:
        """Return the thread that has each moment, -1 for none."""
        at = np.searchsorted(self.start, time, side="right") - 1
        inside = np.flatnonzero(at >= 0)
        inside = inside[time[inside] < self.end[at[inside]]]
        found = np.full(len(time), -1, dtype=np.int32)
        found[inside] = self.thread[at[inside]]
        return found


def _changes(start_ns: Int64, nesting: Nesting, rows: Int32) -> Iterator[tuple[Int64, Int32]]:
    """Yield when the innermost of a thread's events changes, block by block.

    With each time comes the row that begins then, or `~row` of the one that ends.

    Args:
        start_ns: Of all host events.
        nesting: Of all host events.
        rows: The thread's, without empty ones, in the table's order.
    """
    opened, low = rows[:0], 0
    while low < len(rows):
        # What begins at one moment stays together.
        high = min(low + _BLOCK, len(rows))
        while high < len(rows) and start_ns[rows[high]] == start_ns[rows[high - 1]]:
            high += 1
        until = start_ns[rows[high]] if high < len(rows) else _FOREVER
        begun = rows[low:high]
        opened = np.concatenate((opened, begun))
        ends = nesting.end_ns[opened] < until
        ended, opened = opened[ends], opened[~ends]
        at = np.concatenate((nesting.end_ns[ended], start_ns[begun]))
        inner = np.concatenate((~ended, begun)).astype(np.int32)
        # At one moment: inner events end before outer ones, then outer ones start before inner.
        order = in_order(at, np.concatenate((-nesting.depth[ended] - 1, nesting.depth[begun] + 1)))
        at, inner = at[order], inner[order]
        last = np.append(at[1:] != at[:-1], True)
        yield at[last], inner[last]
        low = high
