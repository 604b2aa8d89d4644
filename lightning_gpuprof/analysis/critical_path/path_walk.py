"""Walks the critical path backwards, from what ended last to the beginning of a trace.

From a device event the walk goes along the events before it to a launch, from there back to where
the launching thread's work began, then to the thread that worked last before that. A call that
waited for the device leads back to a device event.
"""

import re
from array import array
from bisect import bisect_left
from typing import Any

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.copies import may_wait
from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, activities, changes
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int8, Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import CATEGORY_ID, of_category

OTHER_STREAM_NS = 10_000
"""A queued event that starts this soon after another stream's event ended counts as having waited
for it, because torch does not record what waited for what."""
KINDS = ("host", "launch", "device", "queue", "sync")
"""Kinds of time on the path: a host thread worked; from the launching call's end to the start on a
device that was waiting for it; a kernel, copy or fill ran; queued work had not begun although what
it depends on had ended; the device had finished, and the synchronizing call went on."""
HOST, LAUNCH, DEVICE, QUEUE, SYNC = range(len(KINDS))
_PYTHON = ACTIVITIES.index("python")
_IDLE = (ACTIVITIES.index("region"), _PYTHON)
"""In these activities a thread may be waiting for another one, such as autograd's."""

_NEAR = 64
"""A thread's next earlier position is looked for among so many before it is among all."""
_CHUNK = 1 << 14
"""Stretches whose segments are made at once, so that temporary arrays stay small."""

_FREE = re.compile(r"(cuda|hip)Free(Host)?$|cuMemFree(_v2)?$|hipHostFree$")
"""These wait for the device before they give memory back."""


class PathRows(Struct, frozen=True):
    """Segments of a path, as columns.

    `kind` is an index into `KINDS`, `name` into the timeline's names, `detail` into `ACTIVITIES` on
    the host and into `CATEGORIES` on a device, whose table has the `row`. -1 where nothing was
    recorded.
    """

    kind: Int8
    start_ns: Int64
    dur_ns: Int64
    name: Int32
    detail: Int8
    row: Int32

    def cut(self, start_ns: int, end_ns: int) -> "PathRows":
        """Return the part in a window; empty segments are left out."""
        start = np.maximum(self.start_ns, start_ns)
        dur = np.minimum(self.start_ns + self.dur_ns, end_ns) - start
        columns = (self.kind, start, dur, self.name, self.detail, self.row)
        lasts = dur > 0
        return PathRows(*(column[lasts] for column in columns))


def walk(trace: LinkedTrace) -> tuple[int, int, PathRows] | None:
    """Return a path's begin, end and segments in order of time; None where nothing ran."""
    steps = _Walk(trace)
    if steps.end < 0:
        return None
    steps.run()
    return steps.begin, steps.end, steps.rows()


class _Walk:
    def __init__(self, trace: LinkedTrace) -> None:
        host, device = trace.timeline.host, trace.timeline.device
        recorded = host.category != CATEGORY_ID["python_function"]
        starts = [int(host.start_ns[recorded.argmax()])] if recorded.any() else []
        self.begin = min([*starts, *device.start_ns[:1].tolist()], default=0)
        self._done = device.end_ns.tolist()
        activity = activities(trace.timeline, trace.nesting)
        self._device, self._name = device, np.append(host.name, np.int32(-1))  # for row -1
        self._detail = np.append(activity, np.int8(_PYTHON))
        waiting, waited = _waiting_calls(trace)
        self._waits = dict(zip(waiting.tolist(), waited.tolist(), strict=True))
        self._lanes = lanes = _lanes(trace, activity, waiting, self.begin)
        self._at, self._row, self._worked = lanes.at.data, lanes.row.data, lanes.worked.data
        self._works, self._first = lanes.works.data, lanes.first.data
        self._reached = dict.fromkeys(lanes.shift, len(lanes.at))
        device_end = int(device.end_ns.max(initial=-1))
        self.end = max(lanes.end, device_end)
        self._last = int(np.flatnonzero(device.end_ns == device_end)[-1]) if len(device) else -1
        if device_end < lanes.end:
            self._last = -1
        self._by_launch, before, since = _device_starts(trace)
        self._before, self._since = before, since
        self._thread = np.append(host.thread, np.int32(-1))[
            np.where(self._by_launch, trace.launches.call, -1)
        ]
        self._on_device, self._synced, self._walked = array("q"), array("q"), array("q")

    def run(self) -> None:
        """Walk back to the trace's beginning."""
        before, time, row, thread = self._before.data, self.end, self._last, -1
        while time > self.begin:
            if row < 0:
                time, row, thread = self._on_host(time, thread)
                continue
            while row >= 0:  # along device events, to one that began when it was launched
                self._on_device.append(row)
                last, row = row, before[row]
            time, thread = int(self._since[last]), int(self._thread[last])

    def _on_host(self, time: int, thread: int) -> tuple[int, int, int]:
        """Go back on a thread, or on the one that worked last where it does not.

        Returns how far, the device event that was waited for (-1 for none), and the thread.
        """
        since, at, row, shift = self.begin, self._at, self._row, self._lanes.shift
        position = self._position(thread, time) if thread in shift else 0
        if thread not in shift or not self._works[position]:
            positions = {other: self._position(other, time) for other in shift}
            ended, by = self._worked_last(time, positions)
            if ended == time or thread not in shift:
                thread = by
            since = max(since, ended if ended < time else since)
            position = positions.get(thread, 0)
            if row[position] < 0:  # where nothing is recorded, another thread may have a region
                open_ = (other for other, place in positions.items() if row[place] >= 0)
                thread = next(open_, thread)
                position = positions.get(thread, 0)
                if row[position] < 0:
                    changed = (at[place] - shift[other] for other, place in positions.items())
                    since = max([since, *changed])
        moved = shift.get(thread, 0)
        wait = self._waits.get(row[position], -1)
        if wait >= 0 and (done := self._done[wait]) < time:
            self._synced.extend((row[position], done, time))
            return done, wait, thread
        first = self._first[position]
        since = max(since, at[first] - moved)
        self._walked.extend((first, position, since, time, moved))
        return since, -1, thread

    def _position(self, thread: int, time: int) -> int:
        """Return the last position of a thread before a time, which only ever gets earlier."""
        at, moved, high = self._at, time + self._lanes.shift[thread], self._reached[thread]
        low = high - _NEAR
        if low < 0 or at[low] >= moved:
            low = 0
        self._reached[thread] = high = bisect_left(at, moved, low, high)
        return high - 1

    def _worked_last(self, time: int, positions: dict[int, int]) -> tuple[int, int]:
        """Return until when, before a time, any thread worked, and which.

        `positions` are the threads' last ones before that time.
        """
        at, worked, shift = self._at, self._worked, self._lanes.shift
        ends = [
            (min(time, at[worked[position] + 1] - shift[thread]), thread)
            for thread, position in positions.items()
        ]
        return max(ends, default=(self.begin, -1))

    def rows(self) -> PathRows:
        """Return all segments that were walked through, in order of time."""
        row, start, end = np.array(self._synced, dtype=np.int64).reshape(-1, 3).T
        walked = np.frombuffer(self._walked, dtype=np.int64).reshape(-1, 5)
        parts = [
            self._host_rows(*self._stretches(walked[low : low + _CHUNK]))
            for low in range(0, len(walked), _CHUNK)
        ]
        parts.append(self._host_rows(row, start, end, SYNC))
        parts.extend(self._device_rows(np.array(self._on_device, dtype=np.int64)))
        order = np.argsort(_joined(parts, "start_ns"), kind="stable")
        columns = (_joined(parts, column) for column in PathRows.__struct_fields__)
        return PathRows(*(column[order] for column in columns))

    def _stretches(self, stretches: Int64) -> tuple[Int64, Int64, Int64]:
        """Return row, start and end of every host event in some stretches that were walked."""
        first, last, since, until, shift = stretches.T
        stop = np.cumsum(last - first + 1)
        stretch = np.repeat(np.arange(len(stretches)), last - first + 1)
        position = np.arange(len(stretch)) + (last + 1 - stop)[stretch]
        at = self._lanes.at
        end = at[np.minimum(position + 1, len(at) - 1)] - shift[stretch]
        end[stop - 1] = until
        start = np.maximum(at[position] - shift[stretch], since[stretch])
        return self._lanes.row[position].astype(np.int64), start, end

    def _host_rows(self, row: Int64, start: Int64, end: Int64, kind: int = HOST) -> PathRows:
        return self._rows(kind, start, end - start, self._name[row], self._detail[row], row)

    def _device_rows(self, row: Int64) -> tuple[PathRows, ...]:
        """Return the segments of device events, and of the time between each and its cause."""
        device, since = self._device, self._since[row]
        start = device.start_ns[row]
        what = device.name[row], device.category[row], row
        why = np.where(self._by_launch[row], LAUNCH, QUEUE)
        return (
            self._rows(DEVICE, start, device.dur_ns[row], *what),
            self._rows(why, since, start - since, *what),
        )

    def _rows(
        self, kind: int | Int64, start: Int64, dur: Int64, name: Int32, detail: Int8, row: Int64
    ) -> PathRows:
        """Return the segments that lie between the path's begin and end, in narrow columns."""
        kinds = np.broadcast_to(np.asarray(kind, dtype=np.int8), len(row))
        rows = PathRows(kinds, start, dur, name, detail, row.astype(np.int32))
        return rows.cut(self.begin, self.end)


def _joined(parts: list[PathRows], column: str) -> Any:
    return np.concatenate([getattr(part, column) for part in parts])


class _Lanes(Struct, frozen=True):
    """What the threads that run operators or launch work were doing, one thread after the other."""

    at: Int64
    """When the innermost event changes; a thread's times are moved by its `shift`."""
    row: Int32
    """The innermost host event from then on; -1 where nothing is recorded."""
    works: Mask
    worked: Int32
    """The last position up to each at which a thread worked."""
    first: Int32
    """The position up to which work goes on without a break or a wait."""
    shift: dict[int, int]
    end: int


def _lanes(trace: LinkedTrace, activity: Int8, waiting: Int64, begin: int) -> _Lanes:
    host, nesting = trace.timeline.host, trace.nesting
    takes_part = np.zeros(int(host.thread.max(initial=-1)) + 2, dtype=np.bool_)
    takes_part[host.thread[host.category == CATEGORY_ID["cpu_op"]]] = True
    takes_part[host.thread[trace.launches.calls]] = True
    counts = takes_part[host.thread] & (nesting.end_ns > host.start_ns)
    counts &= host.category != CATEGORY_ID["python_function"]
    rows, end = np.flatnonzero(counts), int(nesting.end_ns.max(where=counts, initial=-1))
    whole = max(end, int(trace.timeline.device.end_ns.max(initial=-1))) - begin + 1
    shift = np.cumsum(takes_part) * whole
    at, row = changes(host, nesting, rows, shift[host.thread[rows]])
    at, row = np.append(begin - 1, at), np.append(-1, row).astype(np.int32)
    works = np.append(~np.isin(activity, _IDLE), False)[row]
    breaks = ~works | np.isin(row, waiting)
    breaks |= np.append(True, breaks[:-1])
    position = np.arange(len(at), dtype=np.int32)
    return _Lanes(
        at,
        row,
        works,
        np.maximum.accumulate(np.where(works, position, np.int32(-1))),
        np.maximum.accumulate(np.where(breaks, position, np.int32(0))),
        {thread: int(shift[thread]) for thread in np.flatnonzero(takes_part).tolist()},
        end,
    )


def _device_starts(trace: LinkedTrace) -> tuple[Mask, Int64, Int64]:
    """Find what every device event's start waited for.

    Returns whether it was the launching call; else the lower row that ended last of those it waited
    for (-1 for none); and when that call or row ended.
    """
    device, call = trace.timeline.device, trace.launches.call
    launched = np.full(len(device), -1, dtype=np.int64)
    known = np.flatnonzero(call >= 0)
    # A launch cannot have ended after its kernel began, whatever the clocks say.
    launched[known] = np.minimum(trace.nesting.end_ns[call[known]], device.start_ns[known])
    start, end = device.start_ns, np.append(device.end_ns, -1)  # for index -1
    earlier = np.full(len(device), -1, dtype=np.int64)
    order = np.lexsort((device.stream, device.device))  # rows stay in order of start
    same = (np.diff(device.stream[order]) == 0) & (np.diff(device.device[order]) == 0)
    earlier[order[1:][same]] = order[:-1][same]
    earlier = np.where(end[earlier] <= start, earlier, -1)
    explained = np.maximum(end[earlier], launched)
    by_end = np.append(np.argsort(device.end_ns, kind="stable"), -1)
    other = by_end[np.searchsorted(np.sort(device.end_ns), start, side="right") - 1]
    near = start - end[other] <= OTHER_STREAM_NS
    unexplained = (start - explained > OTHER_STREAM_NS) | (explained < 0)
    fits = (other >= 0) & (other < np.arange(len(device)))
    earlier = np.where(unexplained & fits & (near | (explained < 0)), other, earlier)
    by_launch = (call >= 0) & (launched >= end[earlier])
    since = np.where(by_launch, launched, np.where(earlier >= 0, end[earlier], start))
    return by_launch, np.where(by_launch, -1, earlier).astype(np.int64), since


def _waiting_calls(trace: LinkedTrace) -> tuple[Int64, Int64]:
    """Find the calls that waited for device work: their rows, and that of each one's work.

    A synchronizing call, or one that frees memory, waited for the last event that ended before
    it returned; a copy for itself. A call within which nothing ended did not wait.
    """
    timeline, call, end_ns = trace.timeline, trace.launches.call, trace.nesting.end_ns
    host, device = timeline.host, timeline.device
    calls = of_category(host, "cuda_runtime", "cuda_driver")
    blocking = np.append(
        calls & named(timeline, blocks_as_copy), False
    )  # the last value is for index -1
    copies = np.flatnonzero((may_wait(timeline) | blocking[call]) & (call >= 0))
    for_all = np.flatnonzero(calls & named(timeline, _waits_for_all))
    by_end = np.argsort(device.end_ns, kind="stable")
    last = np.searchsorted(device.end_ns[by_end], end_ns[for_all], side="right") - 1
    for_all, last = for_all[last >= 0], last[last >= 0]
    rows = np.concatenate((call[copies], for_all))
    waited = np.concatenate((copies, by_end[last]))
    order = np.argsort(rows, kind="stable")
    order = order[np.append(np.diff(rows[order]) > 0, True)[: len(order)]]  # the last of several
    rows, waited = rows[order], waited[order]
    done, dur_ns = device.end_ns[waited], device.dur_ns[waited]
    waits = (host.start_ns[rows] < done) & (done <= end_ns[rows]) & (dur_ns > 0)
    return rows[waits], waited[waits]


def _waits_for_all(name: str) -> bool:
    """Return whether a call waits for work that was queued before it.

    >>> [_waits_for_all(call) for call in ("cudaDeviceSynchronize", "hipFree", "cudaMalloc")]
    [True, True, False]
    """
    return call_kind(name) == "sync" or _FREE.match(name) is not None
