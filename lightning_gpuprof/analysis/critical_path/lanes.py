"""Which host event was innermost at any moment: by thread, and on the thread in control."""

from bisect import bisect_left

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import distinct
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, in_order
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int8, Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import CATEGORY_ID

_IDLE = (ACTIVITIES.index("region"), ACTIVITIES.index("python"))
"""In these a thread may as well be waiting for another, such as autograd's."""
_NEVER = -(2**62)


class Lane(Struct, frozen=True):
    """The moments at which the innermost event changes, rising.

    Args:
        at: The moments.
        row: The innermost host event from then on; -1 where nothing is recorded.
        run: The position at which the uninterrupted work around each position begins.
    """

    at: Int64
    row: Int32
    run: Int64

    def before(self, time: int) -> int:
        """Return the position of what was innermost just before a time."""
        return bisect_left(self.at.data, time) - 1


class HostLanes(Struct, frozen=True):
    """The threads that run operators or launch work, and what each is doing when.

    Args:
        own: Every thread's lane, one after the other: a thread's times are moved by `shift`.
        shift: By index of the thread.
        main: The thread in control: of those that work the one that goes on longest; where none
            works, one on which anything is recorded.
        end: When the last event of these threads ends; -1 without events.
    """

    own: Lane
    shift: Int64
    main: Lane
    end: int


def host_lanes(trace: LinkedTrace, activity: Int8, *, begin: int) -> HostLanes:
    """Lay out what each thread was doing, and which was in control."""
    host, nesting = trace.timeline.host, trace.nesting
    # One place more: a thread that is not recorded is -1.
    takes_part = np.zeros(int(host.thread.max(initial=-1)) + 2, dtype=np.bool_)
    takes_part[host.thread[host.category == CATEGORY_ID["cpu_op"]]] = True
    takes_part[host.thread[trace.launches.calls]] = True
    counts = takes_part[host.thread] & (nesting.end_ns > host.start_ns)
    counts &= host.category != CATEGORY_ID["python_function"]
    end = int(nesting.end_ns.max(where=counts, initial=-1))
    # Laid end to end, all threads' times are one axis.
    shift = (np.cumsum(takes_part) - 1) * (end - begin + 1)
    at, row = _changes(trace, np.flatnonzero(counts), shift)
    works = np.append(np.isin(activity, _IDLE, invert=True), False)[row]
    position = np.arange(len(at))
    begun = np.maximum.accumulate(np.where(works & ~np.append(False, works[:-1]), position, 0))
    own = Lane(at, row, np.where(works, begun, position))
    in_control = _share(own, shift, host.thread, works)
    recorded = _share(own, shift, host.thread, row >= 0)
    main = _main_lane(own, shift, in_control, recorded, begin=begin, end=max(begin, end))
    return HostLanes(own, shift, main, end)


def _changes(trace: LinkedTrace, rows: Int64, shift: Int64) -> tuple[Int64, Int32]:
    """Return when the innermost event changes on any thread, and the event from then on."""
    host, nesting = trace.timeline.host, trace.nesting
    moved = shift[host.thread[rows]]
    at = np.concatenate((nesting.end_ns[rows] + moved, host.start_ns[rows] + moved))
    inner = np.concatenate((nesting.parent[rows], rows)).astype(np.int32)
    depth = nesting.depth[rows].astype(np.int64)
    # At one moment inner events end before outer ones, then outer ones start before inner ones.
    order = in_order(at, np.concatenate((-depth - 1, depth + 1)))
    at, inner = at[order], inner[order]
    last = np.append(at[1:] != at[:-1], True)[: len(at)]
    return np.append(_NEVER, at[last]), np.append(np.int32(-1), inner[last])


class _Shares(Struct, frozen=True):
    """Intervals that share out the time in which any thread does something; disjoint, rising."""

    start: Int64
    end: Int64
    thread: Int32

    def thread_at(self, time: Int64) -> Int32:
        """Return the thread that has each moment, -1 for none."""
        at = np.searchsorted(self.start, time, side="right") - 1
        inside = np.flatnonzero(at >= 0)
        inside = inside[time[inside] < self.end[at[inside]]]
        found = np.full(len(time), -1, dtype=np.int32)
        found[inside] = self.thread[at[inside]]
        return found


def _share(own: Lane, shift: Int64, thread: Int32, holds: Mask) -> _Shares:
    """Give each moment to the thread that goes on longest, of those for which something holds.

    A walk back in time stays with a thread until its work began, then goes on with another that
    works.
    """
    edge = np.diff(holds.astype(np.int8))
    first, last = np.flatnonzero(edge > 0) + 1, np.flatnonzero(edge < 0) + 1
    by = thread[own.row[first]]
    start, end = own.at[first] - shift[by], own.at[last] - shift[by]
    order = np.argsort(start, kind="stable")
    start, end, by = start[order], end[order], by[order]
    reach = np.maximum.accumulate(end)
    leads = np.append(True, end[1:] > reach[:-1])[: len(end)]
    start, end, by = start[leads], end[leads], by[leads]
    return _Shares(start, np.minimum(end, np.append(start[1:], end[-1:])), by)


def _main_lane(
    own: Lane, shift: Int64, in_control: _Shares, recorded: _Shares, *, begin: int, end: int
) -> Lane:
    borders = (in_control.start, in_control.end, recorded.start, recorded.end)
    at = distinct(np.concatenate(([begin], *borders)))
    by = in_control.thread_at(at)
    by = np.where(by >= 0, by, recorded.thread_at(at))
    known, moved = by >= 0, shift[by]
    # Positions of the thread in control from each border to the next.
    first = np.searchsorted(own.at, at + moved, side="right") - 1
    stop = np.searchsorted(own.at, np.append(at[1:], end) + moved, side="left")
    count = np.where(known, np.maximum(stop - first, 1), 1)
    piece = np.repeat(np.arange(len(at)), count)
    inside = np.arange(len(piece)) - (np.cumsum(count) - count)[piece]
    position = np.where(known[piece], first[piece] + inside, 0)
    row = own.row[position]
    time = np.where(inside == 0, at[piece], own.at[position] - moved[piece])
    # Where nothing changes at a border, there is none.
    changes = (inside > 0) | (row != np.append(np.int32(-2), row[:-1]))
    return Lane(time[changes], row[changes], np.zeros(int(changes.sum()), dtype=np.int64))
