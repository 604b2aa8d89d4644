"""The host's work as one chain: launches and returns from waits, and the work before each."""

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.analysis.blocking import waits
from lightning_gpuprof.analysis.grouping import used
from lightning_gpuprof.analysis.host_activity import ACTIVITIES, activities, activity_within
from lightning_gpuprof.analysis.intervals import Spans
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import Int64, Timeline

_BATCH_WINDOWS = 1 << 14


class HostChain:
    """The moments of the host's chain, in order of time: launches, and returns from waits.

    Args:
        timeline: The trace.
        nesting: Of its host events.
        launches: Joined to its device events.
        launched: By device row, when its launch had ended; -1 for no launch.
        begin: When the trace began.

    Attributes:
        place: By device row: its launch's place in the chain; -1 for no launch.
        returns: Places of the returns.
        device_row: By return: the device row that was waited for.
        after_ns: By return: how long after that row's end the call returned.
        waited_ns: How long all waits took.
        work: Work before each place, and after the last, by activity (rows).
    """

    def __init__(
        self,
        timeline: Timeline,
        nesting: Nesting,
        launches: Launches,
        launched: Int64,
        *,
        begin: int,
    ) -> None:
        host, device = timeline.host, timeline.device
        found = waits(timeline, nesting, launches)
        rows = np.flatnonzero(launched >= 0)
        time = np.concatenate((launched[rows], found.end_ns))
        is_return = np.arange(len(time)) >= len(rows)
        order = np.lexsort((np.concatenate((rows, found.device_row)), is_return, time))
        self.place = np.full(len(device), -1, dtype=np.int64)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.place[rows] = place[: len(rows)]
        back = order[is_return[order]] - len(rows)
        self.returns = np.flatnonzero(is_return[order])
        self.device_row = found.device_row[back]
        self.after_ns = found.end_ns[back] - device.end_ns[self.device_row]
        # Work before a return ended when the wait began, or when the place before was reached.
        worked = np.concatenate((launched[rows], found.start_ns))[order]
        time = time[order]
        worked = np.minimum(np.maximum(worked, np.append(begin, time[:-1])[: len(time)]), time)
        self.waited_ns = int((time - worked).sum())
        thread = host.thread[np.concatenate((launches.call[rows], found.row))[order]]
        finish = int(nesting.end_ns.max(initial=begin))
        start = np.append(begin, time)
        end = np.append(worked, max(finish, int(start[-1])))
        thread = np.append(thread, thread[-1:] if len(thread) else 0)
        self.work = _work(timeline, nesting, Spans(start, end), thread)


def _work(
    timeline: Timeline, nesting: Nesting, windows: Spans, thread: npt.NDArray[np.signedinteger]
) -> npt.NDArray[np.signedinteger]:
    """Return the work in each window (columns), on the thread given for it, by activity (rows)."""
    # No window holds more work than it is long.
    longest = int((windows.end - windows.start).max(initial=0))
    small = longest <= np.iinfo(np.int32).max
    work = np.zeros((len(ACTIVITIES), len(windows)), dtype=np.int32 if small else np.int64)
    if not len(timeline.host):
        return work
    own = activities(timeline, nesting)
    for one in used(thread):
        mine = np.flatnonzero(thread == one)
        for low in range(0, len(mine), _BATCH_WINDOWS):
            some = mine[low : low + _BATCH_WINDOWS]
            spans = Spans(windows.start[some], windows.end[some])
            work[:, some] = activity_within(timeline, nesting, own, one, spans)
    return work
