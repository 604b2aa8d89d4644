"""The host's work as one chain: launches and returns from waits, and the work before each."""

import numpy as np

from lightning_gpuprof.analysis.trace.blocking import waits
from lightning_gpuprof.analysis.trace.grouping import used
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, HostActivity
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace.time_split import Spans
from lightning_gpuprof.arrays import Floats, Int64


class HostChain:
    """The moments of the host's chain, in order of time: launches, and returns from waits.

    `place` is, by device row, its launch's place in the chain (-1 for no launch), `returns` are
    places. By return: `device_row` was waited for, and the call returned `after_ns` after its end.
    """

    def __init__(self, trace: LinkedTrace, launched: Int64, *, begin: int) -> None:
        timeline, nesting, found = trace.timeline, trace.nesting, waits(trace)
        by_work = np.argsort(found.device_row, kind="stable")
        rows = np.flatnonzero(launched >= 0)
        # At one moment launches come before returns, and both in the order of device rows.
        time = np.concatenate((launched[rows], found.end_ns[by_work]))
        order = np.argsort(time, kind="stable")
        self.returns = np.flatnonzero(order >= len(rows))
        back = by_work[order[self.returns] - len(rows)]
        self.device_row = found.device_row[back]
        self.after_ns = found.end_ns[back] - timeline.device.end_ns[self.device_row]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.place = np.full(len(launched), -1, dtype=np.int64)
        self.place[rows] = place[: len(rows)]
        start = np.append(begin, time[order])
        # Work before a return ended when the wait began, or when the place before was reached.
        end = np.append(start[1:], max(int(nesting.end_ns.max(initial=begin)), int(start[-1])))
        worked = np.maximum(found.start_ns[back], start[self.returns])
        worked = np.minimum(worked, end[self.returns])
        self.waited_ns = int((end[self.returns] - worked).sum())
        end[self.returns] = worked
        calls = np.concatenate((trace.launches.call[rows], found.row[by_work]))[order]
        self._work = np.zeros((len(ACTIVITIES), len(start)), dtype=np.int64)
        if len(timeline.host):
            thread = timeline.host.thread[calls]
            thread = np.append(thread, thread[-1:] if len(thread) else np.int32(0))
            activity = HostActivity(timeline, nesting)
            for one in used(thread):
                mine = thread == one
                self._work[:, mine] = activity.within(one, Spans(start[mine], end[mine]))

    @property
    def work_ns(self) -> list[int]:
        """All work, by activity."""
        totals: list[int] = self._work.sum(axis=1).tolist()
        return totals

    def work(self, share: Floats) -> Floats:
        """Return the work before each place, and after the last, with a share of each activity."""
        work: Floats = share @ self._work
        return work
