"""Walks the critical path backwards, from what ended last to the beginning of a trace.

From a device event the walk goes along the events before it to a launch, from there back to where
the launching thread's work began, then to the thread that worked last before that. A call that
waited for the device leads back to a device event.
"""

import re
from array import array
from bisect import bisect_left

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from lightning_gpuprof.analysis.trace.copies import may_wait
from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, activities, changes
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int8, Int64, Mask
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

_FREE = re.compile(r"(cuda|hip)Free(Host)?$|cuMemFree(_v2)?$|hipHostFree$")
"""These wait for the device before they give memory back."""


class PathRows(Struct, frozen=True):
    """Segments of a path, as columns.

    `kind` is an index into `KINDS`, `name` into the timeline's names, `detail` into `ACTIVITIES` on
    the host and into `CATEGORIES` on a device, whose table has the `row`. -1 where nothing was
    recorded.
    """

    kind: Int64
    start_ns: Int64
    dur_ns: Int64
    name: Int64
    detail: Int64
    row: Int64

    def cut(self, start_ns: int, end_ns: int) -> "PathRows":
        """Return the part in a window; empty segments are left out."""
        start = np.maximum(self.start_ns, start_ns)
        dur = np.minimum(self.start_ns + self.dur_ns, end_ns) - start
        columns = (self.kind, start, dur, self.name, self.detail, self.row)
        return PathRows(*(column[dur > 0] for column in columns))


def walk(trace: LinkedTrace) -> tuple[int, int, PathRows] | None:
    """Return a path's begin, end and segments in order of time; None where nothing ran."""
    steps = _Walk(trace)
    if steps.end < 0:
        return None
    steps.run()
    return steps.begin, steps.end, steps.rows().cut(steps.begin, steps.end)


class _Walk:
    def __init__(self, trace: LinkedTrace) -> None:
        host, device = trace.timeline.host, trace.timeline.device
        recorded = host.category != CATEGORY_ID["python_function"]
        starts = [int(host.start_ns[recorded.argmax()])] if recorded.any() else []
        self.begin = min([*starts, *device.start_ns[:1].tolist()], default=0)
        self._done = device.end_ns.tolist()
        self._timeline, self._activity = trace.timeline, activities(trace.timeline, trace.nesting)
        waiting, waited = _waiting_calls(trace)
        self._waits = dict(zip(waiting.tolist(), waited.tolist(), strict=True))
        self._lanes = lanes = _lanes(trace, self._activity, waiting, self.begin)
        self._at, self._row, self._worked = lanes.at.data, lanes.row.data, lanes.worked.data
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
        lanes, since, at, row = self._lanes, self.begin, self._at, self._row
        shift = lanes.shift
        position = bisect_left(at, time + shift.get(thread, 0)) - 1
        if thread not in shift or not lanes.works[position]:
            ended, by = self._worked_last(time)
            if ended == time or thread not in shift:
                thread = by
            since = max(since, ended if ended < time else since)
            position = bisect_left(at, time + shift.get(thread, 0)) - 1
            if row[position] < 0:  # where nothing is recorded, another thread may have a region
                open_ = (
                    other for other, by in shift.items() if row[bisect_left(at, time + by) - 1] >= 0
                )
                thread = next(open_, thread)
                position = bisect_left(at, time + shift.get(thread, 0)) - 1
                if row[position] < 0:
                    changed = (at[bisect_left(at, time + by) - 1] - by for by in shift.values())
                    since = max([since, *changed])
        moved = shift.get(thread, 0)
        wait = self._waits.get(row[position], -1)
        if wait >= 0 and (done := self._done[wait]) < time:
            self._synced.extend((row[position], done, time))
            return done, wait, thread
        first = int(lanes.first[position])
        since = max(since, at[first] - moved)
        self._walked.extend((first, position, since, time, moved))
        return since, -1, thread

    def _worked_last(self, time: int) -> tuple[int, int]:
        """Return until when, before a time, any thread worked, and which."""
        at, worked = self._at, self._worked
        ends = [
            (min(time, at[worked[bisect_left(at, time + moved) - 1] + 1] - moved), thread)
            for thread, moved in self._lanes.shift.items()
        ]
        return max(ends, default=(self.begin, -1))

    def rows(self) -> PathRows:
        """Return all segments that were walked through, in order of time."""
        row, start, end = np.array(self._synced, dtype=np.int64).reshape(-1, 3).T
        parts = (
            self._host_rows(*self._stretches()),
            self._host_rows(row, start, end, SYNC),
            *self._device_rows(np.array(self._on_device, dtype=np.int64)),
        )
        columns = [np.concatenate(column) for column in zip(*map(astuple, parts), strict=True)]
        order = np.argsort(columns[1], kind="stable")
        return PathRows(*(column[order] for column in columns))

    def _stretches(self) -> tuple[Int64, Int64, Int64]:
        """Return row, start and end of every host event in the stretches that were walked."""
        stretches = np.array(self._walked, dtype=np.int64).reshape(-1, 5)
        first, last, since, until, shift = stretches.T
        stop = np.cumsum(last - first + 1)
        stretch = np.repeat(np.arange(len(stretches)), last - first + 1)
        position = np.arange(len(stretch)) + (last + 1 - stop)[stretch]
        at = np.append(self._lanes.at, 0)
        end = at[position + 1] - shift[stretch]
        end[stop - 1] = until
        start = np.maximum(at[position] - shift[stretch], since[stretch])
        return self._lanes.row[position], start, end

    def _host_rows(self, row: Int64, start: Int64, end: Int64, kind: int = HOST) -> PathRows:
        name = np.append(self._timeline.host.name.astype(np.int64), -1)[row]
        detail = np.append(self._activity.astype(np.int64), _PYTHON)[row]
        return PathRows(np.full(len(row), kind), start, end - start, name, detail, row)

    def _device_rows(self, row: Int64) -> tuple[PathRows, PathRows]:
        """Return the segments of device events, and of the time between each and its cause."""
        device, since = self._timeline.device, self._since[row]
        start = device.start_ns[row]
        what = device.name[row].astype(np.int64), device.category[row].astype(np.int64), row
        ran = np.full(len(row), DEVICE)
        why = np.where(self._by_launch[row], LAUNCH, QUEUE)
        return (
            PathRows(ran, start, device.dur_ns[row], *what),
            PathRows(why, since, start - since, *what),
        )


class _Lanes(Struct, frozen=True):
    """What the threads that run operators or launch work were doing, one thread after the other."""

    at: Int64
    """When the innermost event changes; a thread's times are moved by its `shift`."""
    row: Int64
    """The innermost host event from then on; -1 where nothing is recorded."""
    works: Mask
    worked: Int64
    """The last position up to each at which a thread worked."""
    first: Int64
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
    at, row = np.append(begin - 1, at), np.append(-1, row)
    works = np.append(~np.isin(activity, _IDLE), False)[row]
    breaks = ~works | np.isin(row, waiting)
    breaks |= np.append(True, breaks[:-1])
    position = np.arange(len(at))
    return _Lanes(
        at,
        row,
        works,
        np.maximum.accumulate(np.where(works, position, -1)),
        np.maximum.accumulate(np.where(breaks, position, 0)),
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
