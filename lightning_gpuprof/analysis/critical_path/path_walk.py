"""Walks the critical path backwards, in stretches.

What let each device event begin does not depend on the walk, so it is found for all at once, and
so is who was in control of the host. The walk itself goes from stretch to stretch: along a chain
of device events to a launch, on the host back to a call that waited, and so on.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.critical_path.device_starts import DeviceStarts, device_starts
from lightning_gpuprof.analysis.critical_path.host_control import HostControl
from lightning_gpuprof.analysis.critical_path.lanes import Lane, Relay
from lightning_gpuprof.analysis.critical_path.path_rows import (
    PathKind,
    PathRows,
    device_rows,
    host_rows,
)
from lightning_gpuprof.analysis.trace.blocking import waits
from lightning_gpuprof.analysis.trace.grouping import looked_up
from lightning_gpuprof.analysis.trace.host_activity import activities
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int8, Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline

_BLOCK = 1 << 14
"""Segments that are made at a time: all of a path's take more memory than the trace."""


class Stretches(Struct, frozen=True):
    """What of a lane of the host is on the path.

    Args:
        lane: The lane.
        taken: First and last position, until when, and how far the lane's times are moved.
    """

    lane: Lane | Relay
    taken: Int64

    def blocks(self) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Yield row, start and end of everything on the way, some of it at a time."""
        first, last, until, shift = self.taken.T
        stop = np.cumsum(last - first + 1)
        for low in range(0, int(stop[-1]) if len(stop) else 0, _BLOCK):
            high = min(low + _BLOCK, int(stop[-1]))
            number = np.arange(
                np.searchsorted(stop, low, side="right"), np.searchsorted(stop, high) + 1
            )
            inside = np.minimum(stop[number], high)
            one = np.repeat(number, np.diff(inside, prepend=low))
            place = np.arange(low, high)
            position = place + (last + 1 - stop)[one]
            following = min(int(position[-1]) + 1, len(self.lane) - 1)
            at, row = self.lane.look_up(np.append(position, following))
            end = at[1:] - shift[one]
            ends = place + 1 == stop[one]
            end[ends] = until[one[ends]]
            yield row[:-1].astype(np.int64), at[:-1] - shift[one], end


class Path(Struct, frozen=True):
    """A walked path.

    Args:
        start_ns: Where it begins.
        end_ns: Where it ends.
        timeline: The trace.
        activity: Of its host events.
        began: Its device events.
        on_host: What it went through on the host.
        in_waits: Host row, start and end of what it waited for returns of.
        on_device: Rows of the device events on it.
    """

    start_ns: int
    end_ns: int
    timeline: Timeline
    activity: Int8
    began: DeviceStarts
    on_host: tuple[Stretches, Stretches]
    in_waits: Int64
    on_device: Int32

    def blocks(self) -> Iterator[PathRows]:
        """Yield its segments, in no order."""
        for stretches in self.on_host:
            for block in stretches.blocks():
                yield host_rows(self.timeline, self.activity, *block)
        row, start, end = self.in_waits.T
        yield host_rows(self.timeline, self.activity, row, start, end, PathKind.SYNC)
        for low in range(0, len(self.on_device), _BLOCK):
            yield from device_rows(self.timeline, self.began, self.on_device[low : low + _BLOCK])


def walk(trace: LinkedTrace) -> Path | None:
    """Walk back from what ended last to the beginning of a trace; None where nothing ran."""
    steps = _Walk(trace)
    if steps.end < 0:
        return None
    steps.run()
    return steps.path()


class _Walk:
    """How far back the walk has come, and what it went through.

    Arrays by host row have one place more, found by row -1.
    """

    def __init__(self, trace: LinkedTrace) -> None:
        timeline, launches = trace.timeline, trace.launches
        host, device = timeline.host, timeline.device
        recorded = host.category != CATEGORY_ID["python_function"]
        starts = [int(host.start_ns[recorded.argmax()])] if recorded.any() else []
        self.begin = min([*starts, *device.start_ns[:1].tolist()], default=0)
        self._timeline = timeline
        self._activity = activities(timeline, trace.nesting)
        self._began = device_starts(trace)
        found = waits(trace)
        control = HostControl(trace, self._activity, begin=self.begin)
        device_end = int(device.end_ns.max(initial=-1))
        self.end = max(control.end, device_end)
        # Of several that end last, the last one.
        last = int(np.flatnonzero(device.end_ns == device_end)[-1]) if len(device) else -1
        self._last = last if device_end >= control.end else -1
        thread = np.append(host.thread, np.int32(-1))
        by_row = np.argsort(found.row)
        wait_row, waits_for = found.row[by_row], found.device_row[by_row]
        done = device.end_ns[waits_for]
        self._main = _Walked(control.main, wait_row, done, thread, np.zeros_like(control.shift))
        self._own = _Walked(control.own, wait_row, done, thread, control.shift)
        self._shift: list[int] = control.shift.tolist()
        self._on_device, self._in_waits = array("i"), array("q")
        # These read like lists, without the memory of one.
        self._wait_row, self._waits_for, self._done = wait_row.data, waits_for.data, done.data
        self._before, self._since = self._began.before.data, self._began.since.data
        self._thread = thread.data
        self._launched_by = looked_up(
            thread, np.where(self._began.by_launch, launches.call, np.int32(-1))
        ).data

    def run(self) -> None:
        """Walk back to the trace's beginning."""
        time, row, thread = self.end, self._last, -1
        while time > self.begin:
            if row >= 0:
                time, thread, row = *self._to_launch(row), -1
            else:
                time, row = self._to_wait(time, thread)
                thread = -1

    def path(self) -> Path:
        """Return all that was walked through."""
        return Path(
            self.begin,
            self.end,
            self._timeline,
            self._activity,
            self._began,
            (self._main.stretches(), self._own.stretches()),
            np.array(self._in_waits, dtype=np.int64).reshape(-1, 3),
            np.frombuffer(self._on_device, dtype=np.int32),
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
        if thread >= 0 and self._thread[lane.row_of(position)] != thread:
            moved = self._own.before(time + self._shift[thread])
            if self._own.row_of(moved) >= 0:
                lane, shift, position = self._own, self._shift[thread], moved
        # The walk may come into a call that waited from its middle, by another thread's launch.
        waiting = position
        wait = self._wait(lane.row_of(position))
        if wait < 0 or self._done[wait] >= time:
            waiting = lane.last_wait(position)
        if waiting < position:
            time = lane.take(waiting + 1, position, time, shift)
        if waiting < 0:
            return time, -1
        row = lane.row_of(waiting)
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

    Args:
        lane: The lane.
        wait_row: Host rows of calls that waited, rising.
        done_ns: When what each of them waited for had ended.
        thread: By host row.
        shift: By thread, how far the lane's times are moved.
    """

    def __init__(
        self,
        lane: Lane | Relay,
        wait_row: Int64,
        done_ns: Int64,
        thread: Int32,
        shift: Int64,
    ) -> None:
        self._lane = lane
        self.before, self.row_of = lane.before, lane.row_of
        waited = np.zeros(len(thread), dtype=np.bool_)
        waited[wait_row] = True
        self._waits, self._taken = array("q"), array("q")
        for low in range(0, len(lane), _BLOCK):
            high = min(low + _BLOCK, len(lane))
            position = np.arange(low, high)
            row = lane.rows(position)
            waits = waited[row]
            position, row = position[waits], row[waits]
            following = np.minimum(position + 1, len(lane) - 1)
            left = (
                np.where(following > position, lane.look_up(following)[0], 0) - shift[thread[row]]
            )
            waits = done_ns[np.searchsorted(wait_row, row)] < left
            self._waits.extend(position[waits].tolist())

    def last_wait(self, position: int) -> int:
        """Return the last position before this one, of the same run, at which a call waits."""
        index = bisect_left(self._waits, position) - 1
        found: int = self._waits[index] if index >= 0 else -1
        return found if found >= self._lane.run(position) else -1

    def take(self, first: int, last: int, until: int, shift: int) -> int:
        """Go along positions of a run, and return the time that this leads to."""
        first = max(first, self._lane.run(last))
        self._taken.extend((first, last, until, shift))
        return self._lane.time_of(first) - shift

    def stretches(self) -> Stretches:
        """Return what was gone along."""
        return Stretches(self._lane, np.array(self._taken, dtype=np.int64).reshape(-1, 4))
