"""What the host threads that take part in the critical path were doing over time."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, changes
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, rows_by_thread
from lightning_gpuprof.arrays import AnyArray, Int8, Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID

NOTHING, OPEN, WORKS, WAITS = range(4)
"""What a thread does: nothing that was recorded, a region outside any operator, work, or a call
that may have waited for a device."""
_IDLE = (ACTIVITIES.index("region"), ACTIVITIES.index("python"))
"""In these activities a thread may be waiting for another one, such as autograd's."""


class Stretches(Struct, frozen=True):
    """Parts of lanes in which a thread keeps doing the same; a call that waits is one by itself.

    Sorted by lane, then by start. Every lane has one of `NOTHING` before its first event.
    """

    lane: Int32
    kind: Int8
    position: Int64
    """Where each begins in the columns of `Lanes`."""
    start_ns: Int64


class Lanes(Struct, frozen=True):
    """The threads that run operators or launch work: a lane each, one after the other.

    Args:
        at: When the innermost event changes. The times of a lane are moved by its `shift`.
        row: The innermost host event from then on; -1 where nothing is recorded.
        shift: By lane; the last value, 0, is for lane -1, on which nothing is recorded.
        of_thread: The lane of each thread, -1 for none; the last value is for thread -1.
        end: When the last of their events ended; -1 for none.
    """

    at: Int64
    row: Int32
    shift: Int64
    of_thread: Int64
    end: int
    stretches: Stretches

    def events(self, lane: Int64, since: Int64, until: Int64) -> tuple[Int32, Int64, Int64]:
        """Return row, start and end of the innermost events of lanes, in a part of each.

        Parts may be empty, or end before they begin, as if empty.
        """
        lane, since, until = (column[since < until] for column in (lane, since, until))
        moved = self.shift[lane]
        first = np.searchsorted(self.at, since + moved, side="right") - 1
        last = np.searchsorted(self.at, until + moved, side="left") - 1
        length = last - first + 1
        stop = np.cumsum(length)
        part = np.repeat(np.arange(len(lane)), length)
        position = np.arange(len(part)) + (last + 1 - stop)[part]
        start = np.maximum(self.at[position] - moved[part], since[part])
        end = np.append(start[1:], 0)[: len(start)]
        end[stop - 1] = until
        return self.row[position], start, end


def lanes(trace: LinkedTrace, activity: Int8, waiting: Int64, begin: int) -> Lanes:
    """Lay out what threads did from the path's begin on.

    Args:
        trace: The trace.
        activity: The activity of each host event.
        waiting: Host rows of the calls that may have waited for a device.
        begin: The path's begin.
    """
    host, nesting = trace.timeline.host, trace.nesting
    takes_part = np.zeros(int(host.thread.max(initial=-1)) + 1, dtype=np.bool_)
    takes_part[host.thread[host.category == CATEGORY_ID["cpu_op"]]] = True
    takes_part[host.thread[trace.launches.calls]] = True
    of_thread = np.append(np.where(takes_part, np.cumsum(takes_part) - 1, -1), -1)
    counts = takes_part[host.thread] & (nesting.end_ns > host.start_ns)
    counts &= host.category != CATEGORY_ID["python_function"]
    end = int(nesting.end_ns.max(where=counts, initial=-1))
    whole = max(end, int(trace.timeline.device.end_ns.max(initial=-1))) - begin + 1
    shift = np.append(np.arange(1, takes_part.sum() + 1) * whole, 0)
    kind_of = np.full(len(host) + 1, NOTHING, dtype=np.int8)  # the last value is for row -1
    kind_of[:-1] = np.where(np.isin(activity, _IDLE), OPEN, WORKS)
    kind_of[waiting[kind_of[waiting] == WORKS]] = WAITS
    most = 2 * int(counts.sum()) + 1
    at, row, high = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int32), 1
    at[0], row[0] = begin - 1, -1
    parts: list[tuple[AnyArray, ...]] = []
    for part in rows_by_thread(host):
        lane = int(of_thread[host.thread[part[0]]])
        if lane < 0:
            continue
        begun, inner = changes(host, nesting, part[counts[part]])
        low, high = high, high + len(begun)
        np.add(begun, shift[lane], out=at[low:high])
        row[low:high] = inner
        kind = np.append(np.int8(NOTHING), kind_of[inner])
        first = np.flatnonzero((kind[1:] != kind[:-1]) | (kind[1:] == WAITS))
        parts.append(
            (
                np.full(len(first) + 1, lane, dtype=np.int32),
                np.append(np.int8(NOTHING), kind[first + 1]),
                np.append(low - 1, low + first),
                np.append(begin, begun[first]),
            )
        )
    none = [tuple(np.zeros(0, dtype=kind) for kind in (np.int32, np.int8, np.int64, np.int64))]
    columns = (np.concatenate(pieces) for pieces in zip(*(parts or none), strict=True))
    return Lanes(at[:high], row[:high], shift, of_thread, end, Stretches(*columns))
