"""Walks the critical path backwards, from what ended last to the beginning of a trace.

From a device event the walk goes along the events before it to a launch, and from there along host
threads (`handovers.py`). A call that waited for the device leads back to a device event.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from lightning_gpuprof.analysis.critical_path.handovers import handovers
from lightning_gpuprof.analysis.critical_path.lanes import lanes
from lightning_gpuprof.analysis.trace.copies import may_wait
from lightning_gpuprof.analysis.trace.grouping import distinct, named
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, activities
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
        if lasts.all():
            return PathRows(*columns)
        return PathRows(*(column[lasts] for column in columns))


def joined(pieces: Iterable[PathRows]) -> PathRows:
    """Return the segments of all pieces, in order of time."""
    columns = zip(*map(astuple, pieces), strict=True)
    rows = PathRows(*map(np.concatenate, columns))
    order = np.argsort(rows.start_ns, kind="stable")
    return PathRows(*(column[order] for column in astuple(rows)))


def walk(trace: LinkedTrace) -> "Walk | None":
    """Walk a trace's path; None where nothing ran."""
    steps = Walk(trace)
    if steps.end < 0:
        return None
    steps.run()
    return steps


class Walk:
    """A walk through a trace, from `end` back to `begin`."""

    def __init__(self, trace: LinkedTrace) -> None:
        host, device = trace.timeline.host, trace.timeline.device
        recorded = host.category != CATEGORY_ID["python_function"]
        starts = [int(host.start_ns[recorded.argmax()])] if recorded.any() else []
        self.begin = min([*starts, *device.start_ns[:1].tolist()], default=0)
        activity = activities(trace.timeline, trace.nesting)
        self._device, self._name = device, np.append(host.name, np.int32(-1))  # for row -1
        self._detail = np.append(activity, np.int8(_PYTHON))
        waiting, waited = _waiting_calls(trace)
        self._waits = dict(zip(waiting.tolist(), waited.tolist(), strict=True))
        self._done = device.end_ns
        self._lanes = lanes(trace, activity, waiting, self.begin)
        self._handovers = handovers(self._lanes.stretches, self.begin)
        device_end = int(device.end_ns.max(initial=-1))
        self.end = max(self._lanes.end, device_end)
        self._last = int(np.flatnonzero(device.end_ns == device_end)[-1]) if len(device) else -1
        if device_end < self._lanes.end:
            self._last = -1
        self._by_launch, self._before, self._since = _device_starts(trace)
        call = np.where(self._by_launch, trace.launches.call, -1)
        self._lane = self._lanes.of_thread[np.append(host.thread, -1)[call]]
        self._on_device, self._synced = array("q"), array("q")
        self._walked, self._passed = array("q"), array("i")

    def run(self) -> None:
        """Walk back to the trace's beginning."""
        before, time, row, lane = self._before.data, self.end, self._last, -1
        while time > self.begin:
            if row < 0:
                time, row = self._on_host(time, lane)
                continue
            while row >= 0:  # along device events, to one that began when it was launched
                self._on_device.append(row)
                last, row = row, before[row]
            time, lane = int(self._since[last]), int(self._lane[last])

    def _on_host(self, time: int, lane: int) -> tuple[int, int]:
        """Go back on the host to a call that waited for a device, or to the beginning.

        Returns how far, and the device event that was waited for, -1 for none.
        """
        over, walked = self._handovers, self._walked
        start_ns, chosen, leaves = over.start_ns.data, over.lane.data, over.leaves.data
        interval = bisect_left(start_ns, time) - 1
        if lane < 0:
            lane = over.worked_last(interval)
        while interval >= 0:
            if lane == chosen[interval]:  # from here on it is decided, up to a call that may wait
                left = leaves[interval]
                walked.extend((lane, start_ns[max(left, -2 - left) + 1], time))
                while left >= 0:
                    self._passed.append(left)
                    interval, left = left, leaves[left]
                if left == -1:
                    break
                lane, interval = chosen[interval], -2 - left
                time = min(time, start_ns[interval + 1])
            first, call = over.stretch(interval, lane)
            wait = self._waits.get(call, -1)
            if wait >= 0 and (done := int(self._done[wait])) < time:
                self._synced.extend((call, done, time))
                return done, wait
            if first > interval:
                lane = chosen[interval]
                continue
            walked.extend((lane, start_ns[first], time))
            time, interval = start_ns[first], first - 1
        return self.begin, -1

    def pieces(self) -> Iterator[PathRows]:
        """Yield all segments that were walked through, some thousands at a time, in any order."""
        passed = np.frombuffer(self._passed, dtype=np.int32)
        walked = np.frombuffer(self._walked, dtype=np.int64).reshape(-1, 3)
        lane_passed, lane_walked = self._handovers.lane[passed], walked[:, 0]
        for lane in distinct(np.append(lane_passed, lane_walked)).tolist():
            own = self._handovers.passed(passed[lane_passed == lane])
            parts = np.concatenate((own, walked[lane_walked == lane, 1:]))
            parts = parts[parts[:, 0] < parts[:, 1]]
            for events in self._lanes.events(lane, *parts[np.argsort(parts[:, 0])].T):
                yield self._host_rows(*events)
        row, start, end = np.array(self._synced, dtype=np.int64).reshape(-1, 3).T
        yield self._host_rows(row, start, end, SYNC)
        yield from self._device_rows(np.array(self._on_device, dtype=np.int64))

    def _host_rows(
        self, row: Int32 | Int64, start: Int64, end: Int64, kind: int = HOST
    ) -> PathRows:
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
        self,
        kind: int | Int64,
        start: Int64,
        dur: Int64,
        name: Int32,
        detail: Int8,
        row: Int32 | Int64,
    ) -> PathRows:
        """Return the segments that lie between the path's begin and end, in narrow columns."""
        kinds = np.broadcast_to(np.asarray(kind, dtype=np.int8), len(row))
        rows = PathRows(kinds, start, dur, name, detail, row.astype(np.int32, copy=False))
        return rows.cut(self.begin, self.end)


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
