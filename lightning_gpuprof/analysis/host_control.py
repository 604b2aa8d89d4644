"""Which host event was innermost at any moment, and which thread was in control."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.host_activity import ACTIVITIES, activities
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline

_IDLE = (ACTIVITIES.index("region"), ACTIVITIES.index("python"))
"""In these a thread may as well be waiting for another: autograd's, say."""

NEVER_NS = -(2**62)
"""Before any time of a trace; below 0 occurs, since Python calls may begin before the rest."""


@dataclass(frozen=True)
class ThreadRows:
    """A thread's innermost events.

    Args:
        at: Times at which the innermost event changes, rising.
        row: Host row that is innermost from each on, -1 for none.
        busy_until: Ends of the stretches in which the thread surely worked, rising.
    """

    at: list[int]
    row: list[int]
    busy_until: list[int]

    def before(self, time: int) -> tuple[int, int]:
        """Return the innermost row just before a time, and since when it was."""
        index = bisect_left(self.at, time) - 1
        return (self.row[index], self.at[index]) if index >= 0 else (-1, NEVER_NS)

    def last_busy(self, time: int) -> int:
        """Return when the thread last stopped working, at or before a time, or `NEVER_NS`."""
        index = bisect_right(self.busy_until, time) - 1
        return self.busy_until[index] if index >= 0 else NEVER_NS


class HostControl:
    """The threads that run operators or launch work, and what each is doing when.

    Args:
        timeline: The trace.
        nesting: Of its host events.
        launches: Joined to its device events.
    """

    def __init__(self, timeline: Timeline, nesting: Nesting, launches: Launches) -> None:
        host = timeline.host
        self.activity: list[int] = activities(timeline, nesting).tolist()
        operators = host.category == CATEGORY_ID["cpu_op"]
        operators[launches.calls] = True
        self._threads = {
            thread: _thread_rows(timeline, nesting, thread, self.activity)
            for thread in np.unique(host.thread[operators]).tolist()
        }

    def works(self, row: int) -> bool:
        """Tell whether an innermost event is work of its thread, not perhaps a wait."""
        return row >= 0 and self.activity[row] not in _IDLE

    def take(self, thread: int, time: int) -> tuple[int, int, int]:
        """Return who was in control just before a time, given who was just after it.

        A thread keeps control while it works; else a thread that works has it; else one on
        which anything is recorded, back to when any thread worked.

        Returns:
            Thread, its innermost row (-1 for none), and since when that has been so.
        """
        row, since = self._rows(thread).before(time)
        if self.works(row):
            return thread, row, since
        others = [(key, *rows.before(time)) for key, rows in self._threads.items() if key != thread]
        working = [other for other in others if self.works(other[1])]
        if working:
            return max(working, key=lambda other: other[2])
        recorded = [other for other in others if other[1] >= 0]
        if row < 0 and recorded:
            thread, row, since = max(recorded, key=lambda other: other[2])
        others_until = [r.last_busy(time - 1) for key, r in self._threads.items() if key != thread]
        until = max(others_until, default=NEVER_NS)
        return thread, row, max(since, until)

    def any_thread(self) -> int:
        """Return the thread that stopped working last; -1 where there is none."""
        ends = {k: rows.at[-1] for k, rows in self._threads.items() if rows.at}
        return max(ends, key=lambda key: ends[key], default=-1)

    def end(self) -> int:
        """Return when the last thread stopped working; -1 where there is none."""
        return max((rows.at[-1] for rows in self._threads.values() if rows.at), default=-1)

    def _rows(self, thread: int) -> ThreadRows:
        return self._threads.get(thread, _NO_ROWS)


_NO_ROWS = ThreadRows([], [], [])


def _thread_rows(
    timeline: Timeline, nesting: Nesting, thread: int, activity: list[int]
) -> ThreadRows:
    host = timeline.host
    rows = np.flatnonzero((host.thread == thread) & (nesting.end_ns > host.start_ns))
    level = nesting.depth[rows]
    at = np.concatenate((nesting.end_ns[rows], host.start_ns[rows]))
    inner = np.concatenate((nesting.parent[rows], rows))
    # At one moment: inner events end before outer ones, then outer ones start before inner ones.
    order = np.lexsort((np.concatenate((-level - 1, level + 1)), at))
    at, inner = at[order], inner[order]
    last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, dtype=bool)
    at, inner = at[last], inner[last]
    works = np.isin(np.array(activity, dtype=np.int64)[inner], _IDLE, invert=True) & (inner >= 0)
    stops = np.flatnonzero(works[:-1] & ~works[1:]) + 1
    return ThreadRows(at.tolist(), inner.tolist(), at[stops].tolist())
