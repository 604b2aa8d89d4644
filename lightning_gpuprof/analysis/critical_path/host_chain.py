"""The host's work as one chain: launches and returns from waits, and the work before each."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.analysis.trace.blocking import waits
from lightning_gpuprof.analysis.trace.grouping import looked_up, narrowed, used
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, activities, activity_within
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting
from lightning_gpuprof.analysis.trace.time_split import Spans
from lightning_gpuprof.arrays import Floats, Int32, Int64
from lightning_gpuprof.traces.timeline import Timeline

_BATCH_WINDOWS = 1 << 14


class HostChain:
    """The moments of the host's chain, in order of time: launches, and returns from waits.

    Args:
        trace: The trace.
        launched: By device row, when its launch had ended; -1 for no launch.
        begin: When the trace began.

    Attributes:
        place: By device row: its launch's place in the chain; -1 for no launch.
        returns: Places of the returns.
        device_row: By return: the device row that was waited for.
        after_ns: By return: how long after that row's end the call returned.
        waited_ns: How long all waits took.
    """

    def __init__(self, trace: LinkedTrace, launched: Int64, *, begin: int) -> None:
        timeline, nesting = trace.timeline, trace.nesting
        found = waits(trace)
        by_work = np.argsort(found.device_row, kind="stable")
        rows = np.flatnonzero(launched >= 0).astype(np.int32)
        # At one moment launches come before returns, and both in the order of device rows.
        time = np.concatenate((launched[rows], found.end_ns[by_work]))
        order = np.argsort(time, kind="stable").astype(np.int32)
        is_return = order >= len(rows)
        self.returns = np.flatnonzero(is_return)
        back = by_work[order[self.returns] - len(rows)]
        self.device_row = found.device_row[back]
        device_end = timeline.device.start_ns[self.device_row]
        device_end = device_end + timeline.device.dur_ns[self.device_row]
        self.after_ns = found.end_ns[back] - device_end
        thread = np.concatenate((trace.launches.call[rows], found.row[by_work].astype(np.int32)))[
            order
        ]
        thread = looked_up(timeline.host.thread, thread)
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self.place = np.full(len(launched), -1, dtype=np.int32)
        self.place[rows] = place[: len(rows)]
        del place, rows
        start = np.append(begin, time[order])
        del time, order
        # Work before a return ended when the wait began, or when the place before was reached.
        end = np.append(start[1:], max(int(nesting.end_ns.max(initial=begin)), int(start[-1])))
        worked = np.maximum(found.start_ns[back], start[self.returns])
        worked = np.minimum(worked, end[self.returns])
        self.waited_ns = int((end[self.returns] - worked).sum())
        end[self.returns] = worked
        thread = np.append(thread, thread[-1:] if len(thread) else np.int32(0))
        self._places = len(start)
        self._work = list(_work(timeline, nesting, Spans(start, end), thread))

    @property
    def work_ns(self) -> list[int]:
        """All work, by activity."""
        return [int(ns.sum()) for _, ns in self._work]

    def work(self, share: Floats) -> Floats:
        """Return the work before each place, and after the last, with a share of each activity."""
        work = np.zeros(self._places)
        for of_activity, (place, ns) in zip(share.tolist(), self._work, strict=True):
            if of_activity:
                work[place] += ns * of_activity
        return work


def _work(
    timeline: Timeline, nesting: Nesting, windows: Spans, thread: npt.NDArray[np.signedinteger]
) -> Iterator[tuple[Int32, npt.NDArray[np.signedinteger]]]:
    """Yield for each activity the windows with such work, on the thread given for each, and it."""
    none = np.zeros(0, dtype=np.int32)
    found: list[list[tuple[Int32, npt.NDArray[np.signedinteger]]]]
    found = [[(none, none)] for _ in ACTIVITIES]
    own = activities(timeline, nesting)
    for one in used(thread) if len(timeline.host) else ():
        mine = np.flatnonzero(thread == one).astype(np.int32)
        for low in range(0, len(mine), _BATCH_WINDOWS):
            some = mine[low : low + _BATCH_WINDOWS]
            spans = Spans(windows.start[some], windows.end[some])
            spent = activity_within(timeline, nesting, own, one, spans)
            for pieces, ns in zip(found, spent, strict=True):
                worked = np.flatnonzero(ns)
                if len(worked):
                    pieces.append((some[worked], narrowed(ns[worked])))
    while found:
        place, ns = zip(*found.pop(0), strict=True)
        yield np.concatenate(place), np.concatenate(ns)
