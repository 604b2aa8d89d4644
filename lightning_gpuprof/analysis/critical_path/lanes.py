"""What the host threads that take part in the critical path were doing over time."""

import itertools
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.trace.innermost import changes
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting, rows_by_thread
from lightning_gpuprof.arrays import AnyArray, Int8, Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, HostEvents

NOTHING, OPEN, WORKS, WAITS = range(4)
"""What a thread does: nothing that was recorded, a region outside any operator, work, or a call
that may have waited for a device."""
_IDLE = (ACTIVITIES.index("region"), ACTIVITIES.index("python"))
"""In these activities a thread may be waiting for another one, such as autograd's."""


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Stretches(Struct, frozen=True):
    """Parts of lanes in which a thread keeps doing the same; a call that waits is one by itself.

    Sorted by lane, then by start. Every lane has one of `NOTHING` before its first event. `row` is
    the host row that each begins with, -1 for none.
    """

    lane: Int32
    kind: Int8
    row: Int32
    start_ns: Int64


class Lanes(Struct, frozen=True):
    """The threads that run operators or launch work: a lane each.

    Args:
        rows: The host rows of each lane. The last one has none: it is for lane -1.
        of_thread: The lane of each thread, -1 for none; the last value is for thread -1.
        end: When the last of their events ended; -1 for none.
    """

    host: HostEvents
    nesting: Nesting
    rows: tuple[Int32, ...]
    of_thread: Int64
    end: int
    stretches: Stretches

    def events(self, lane: int, since: Int64, until: Int64) -> Iterator[tuple[Int32, Int64, Int64]]:
        """Yield row, start and end of the innermost events of a lane in some parts of it.

        The parts are in order and do not overlap. Where nothing is recorded, the row is -1.
        """
        before = np.full(1, _FIRST), np.full(1, -1, dtype=np.int32)
        end = np.full(1, _LAST), np.full(1, -1, dtype=np.int32)
        for piece in itertools.chain(changes(self.host, self.nesting, self.rows[lane]), [end]):
            at, row = map(np.concatenate, zip(before, piece, strict=True))
            before = at[-1:], row[-1:]
            here = slice(np.searchsorted(until, at[0], "right"), np.searchsorted(since, at[-1]))
            begin, stop = np.maximum(since[here], at[0]), np.minimum(until[here], at[-1])
            first = np.searchsorted(at, begin, side="right") - 1
            counts = np.searchsorted(at, stop) - first
            behind = np.cumsum(counts)  # of each part's events, among those of all
            part = np.repeat(np.arange(len(first)), counts)
            event = np.arange(len(part)) + (first - behind + counts)[part]
            yield (
                row[event],
                np.maximum(at[event], begin[part]),
                np.minimum(at[event + 1], stop[part]),
            )


def lanes(trace: LinkedTrace, activity: Int8, waiting: Int64, begin: int) -> Lanes:
    """Find out what the threads do that take part in the path.

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
    kind_of = np.full(len(host) + 1, NOTHING, dtype=np.int8)  # the last value is for row -1
    kind_of[:-1] = np.where(np.isin(activity, _IDLE), OPEN, WORKS)
    kind_of[waiting[kind_of[waiting] == WORKS]] = WAITS
    rows = [part[counts[part]] for part in rows_by_thread(host) if takes_part[host.thread[part[0]]]]
    rows.append(np.zeros(0, dtype=np.int32))
    pieces: list[tuple[list[int] | AnyArray, ...]] = [([], [], [], [])]
    for lane, own in enumerate(rows[:-1]):
        pieces.append(([lane], [NOTHING], [-1], [begin]))
        last = np.int8(NOTHING)
        for at, row in changes(host, nesting, own):
            kind = kind_of[row]
            new = (np.append(last, kind)[: len(kind)] != kind) | (kind == WAITS)
            last = np.append(last, kind)[-1]
            pieces.append((np.full(new.sum(), lane), kind[new], row[new], at[new]))
    dtypes = (np.int32, np.int8, np.int32, np.int64)
    columns = map(np.concatenate, zip(*pieces, strict=True))
    return Lanes(
        host=host,
        nesting=nesting,
        rows=tuple(rows),
        of_thread=of_thread,
        end=int(nesting.end_ns.max(where=counts, initial=-1)),
        stretches=Stretches(*map(np.ndarray.astype, columns, dtypes)),
    )
