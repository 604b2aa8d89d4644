"""Walks the critical path backwards, in stretches.

What let each device event begin does not depend on the walk, nor does the thread in control of the
host, so both are found for all events at once. The walk goes along a chain of device events to a
launch, then on the host back to a call that waited, and so on.
"""

from array import array
from bisect import bisect_left

import numpy as np

from lightning_gpuprof.analysis.critical_path.device_starts import device_starts
from lightning_gpuprof.analysis.critical_path.lanes import Lane, host_lanes
from lightning_gpuprof.analysis.critical_path.path_rows import NUMBER, PathKind, PathRows, joined
from lightning_gpuprof.analysis.trace.blocking import Waits, waits
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, activities
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID

_PYTHON = ACTIVITIES.index("python")


def walk(trace: LinkedTrace) -> tuple[int, int, PathRows] | None:
    """Walk back from what ended last to the beginning of a trace.

    Returns:
        Begin, end and segments in order of time; None where nothing ran.
    """
    steps = _Walk(trace)
    if steps.end < 0:
        return None
    steps.run()
    return steps.begin, steps.end, joined(steps.rows()).cut(steps.begin, steps.end)


class _Walk:
    """How far back the walk has come, and what it went through."""

    def __init__(self, trace: LinkedTrace) -> None:
        host, device = trace.timeline.host, trace.timeline.device
        recorded = host.category != CATEGORY_ID["python_function"]
        starts = [int(host.start_ns[recorded.argmax()])] if recorded.any() else []
        self.begin = min([*starts, *device.start_ns[:1].tolist()], default=0)
        self._timeline = trace.timeline
        self._activity = activities(trace.timeline, trace.nesting)
        self._began = device_starts(trace)
        lanes = host_lanes(trace, self._activity, begin=self.begin)
        device_end = int(device.end_ns.max(initial=-1))
        self.end = max(lanes.end, device_end)
        # Of several that end last, the last one.
        last = int(np.flatnonzero(device.end_ns == device_end)[-1]) if len(device) else -1
        self._last = last if device_end >= lanes.end else -1
        thread = np.append(host.thread, np.int32(-1))  # found by row -1
        found = waits(trace)
        by_row = np.argsort(found.row)
        done = device.end_ns[found.device_row[by_row]]
        self._main = _Walked(lanes.main, found, done, by_row, np.zeros(1, dtype=np.int64))
        self._own = _Walked(lanes.own, found, done, by_row, lanes.shift[thread])
        self._shift: list[int] = lanes.shift.tolist()
        self._on_device, self._in_waits = array("i"), array("q")
        # These read like lists, without the memory of one.
        self._wait_row, self._done = found.row[by_row].data, done.data
        self._waits_for = found.device_row[by_row].data
        self._before, self._since = self._began.before.data, self._began.since.data
        self._thread = thread.data
        launch = np.where(self._began.by_launch, trace.launches.call, np.int32(-1))
        self._launched_by = thread[launch].data

    def run(self) -> None:
        """Walk back to the trace's beginning."""
        time, row, thread = self.end, self._last, -1
        while time > self.begin:
            if row >= 0:
                time, thread, row = *self._to_launch(row), -1
            else:
                time, row = self._to_wait(time, thread)
                thread = -1

    def rows(self) -> tuple[PathRows, ...]:
        """Return all segments that were walked through."""
        row, start, end = np.array(self._in_waits, dtype=np.int64).reshape(-1, 3).T
        return (
            self._host_rows(*self._main.segments()),
            self._host_rows(*self._own.segments()),
            self._host_rows(row, start, end, PathKind.SYNC),
            *self._device_rows(np.frombuffer(self._on_device, dtype=np.int32)),
        )

    def _host_rows(
        self, row: Int64, start: Int64, end: Int64, kind: PathKind = PathKind.HOST
    ) -> PathRows:
        known = row >= 0
        name, detail = np.full(len(row), -1), np.full(len(row), _PYTHON)
        name[known] = self._timeline.host.name[row[known]]
        detail[known] = self._activity[row[known]]
        return PathRows(np.full(len(row), NUMBER[kind]), start, end - start, name, detail, row)

    def _device_rows(self, row: Int32) -> tuple[PathRows, PathRows]:
        """Return the segments of device events, and of the time between each and its cause."""
        device, began = self._timeline.device, self._began
        start, since = device.start_ns[row], began.since[row]
        columns = (device.name[row], device.category[row], row)
        what = [column.astype(np.int64) for column in columns]
        ran = np.full(len(row), NUMBER[PathKind.DEVICE])
        why = np.where(began.by_launch[row], NUMBER[PathKind.LAUNCH], NUMBER[PathKind.QUEUE])
        return (
            PathRows(ran, start, device.dur_ns[row], *what),
            PathRows(why, since, start - since, *what),
        )

    def _to_launch(self, row: int) -> tuple[int, int]:
        """Go along device events to one that began when it was launched; when, and by whom."""
        before, passed = self._before, self._on_device
        passed.append(row)
        while (earlier := before[row]) >= 0:
            row = earlier
            passed.append(row)
        return self._since[row], self._launched_by[row]

    def _to_wait(self, time: int, thread: int) -> tuple[int, int]:
        """Go along the host to a call that waited for the device; until when, and for what.

        The thread that launched what comes next is followed back to where its work began, then
        whoever was in control. Without a wait, device row -1 is returned.
        """
        lane, shift = self._main, 0
        position = lane.before(time)
        if thread >= 0 and self._thread[lane.row[position]] != thread:
            moved = self._own.before(time + self._shift[thread])
            if self._own.row[moved] >= 0:
                lane, shift, position = self._own, self._shift[thread], moved
        # The walk may come into a call that waited from its middle, by another thread's launch.
        waiting = position
        wait = self._wait(lane.row[position])
        if wait < 0 or self._done[wait] >= time:
            waiting = lane.last_wait(position)
        if waiting < position:
            time = lane.take(waiting + 1, position, time, shift)
        if waiting < 0:
            return time, -1
        row = lane.row[waiting]
        wait = self._wait(row)
        done = self._done[wait]
        self._in_waits.extend((row, done, time))
        return done, self._waits_for[wait]

    def _wait(self, row: int) -> int:
        """Return the index of a host row's wait; -1 where it did not wait."""
        index = bisect_left(self._wait_row, row)
        return index if index < len(self._wait_row) and self._wait_row[index] == row else -1


class _Walked:
    """A lane of the host, and the stretches of it that a walk went along.

    `done_ns` and `by_row` are the calls that waited, by rising host row: the ends of the work that
    they waited for, and their order. `shift` is by host row, or one number for all.
    """

    def __init__(
        self, lane: Lane, found: Waits, done_ns: Int64, by_row: Int64, shift: Int64
    ) -> None:
        self.before, self.row = lane.before, lane.row.data
        self._lane, self._at, self._run = lane, lane.at.data, lane.run.data
        self._taken = array("q")
        position = np.flatnonzero(np.isin(lane.row, found.row) & (lane.row >= 0))
        position = position[position < len(lane.at) - 1]
        row = lane.row[position]
        left = lane.at[position + 1] - (shift[row] if len(shift) > 1 else 0)
        still = done_ns[np.searchsorted(found.row[by_row], row)] < left
        self._waits: list[int] = position[still].tolist()

    def last_wait(self, position: int) -> int:
        """Return the last position before this one, of the same run, at which a call waits."""
        index = bisect_left(self._waits, position) - 1
        found = self._waits[index] if index >= 0 else -1
        return found if found >= self._run[position] else -1

    def take(self, first: int, last: int, until: int, shift: int) -> int:
        """Go along positions of a run, and return the time that this leads to."""
        first = max(first, self._run[last])
        self._taken.extend((first, last, until, shift))
        return int(self._at[first]) - shift

    def segments(self) -> tuple[Int64, Int64, Int64]:
        """Return row, start and end of everything that the walk went along."""
        taken = np.array(self._taken, dtype=np.int64).reshape(-1, 4)
        first, last, until, shift = taken.T
        stop = np.cumsum(last - first + 1)
        stretch = np.repeat(np.arange(len(taken)), last - first + 1)
        position = np.arange(len(stretch)) + (last + 1 - stop)[stretch]
        end = self._lane.at[np.minimum(position + 1, len(self._at) - 1)] - shift[stretch]
        end[stop - 1] = until
        start = self._lane.at[position] - shift[stretch]
        return self._lane.row[position].astype(np.int64), start, end
