"""The causes of device events' starts: launches, the event before, other streams."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import MISSING, DeviceEvents, Timeline

_WAIT = "Stream Wait Event"


class StreamWaits(Struct, frozen=True):
    """Pairs of device rows: `row` was not to begin before `waited_for`, of another stream, ended.

    A row may be in several pairs.
    """

    row: Int64
    waited_for: Int64


def by_stream(device: DeviceEvents) -> Int32:
    """Return the rows stream by stream, each stream's in order of start."""
    # Rows are in order of start, and stay so within a stream.
    order: Int32 = np.lexsort((device.stream, device.device)).astype(np.int32)
    return order


def previous_on_stream(timeline: Timeline) -> Int32:
    """Return, for each device event, the row before it on its stream; -1 for none."""
    device = timeline.device
    previous = np.full(len(device), -1, dtype=np.int32)
    order = by_stream(device)
    same = (np.diff(device.stream[order]) == 0) & (np.diff(device.device[order]) == 0)
    previous[order[1:][same]] = order[:-1][same]
    return previous


def stream_waits(trace: LinkedTrace) -> StreamWaits:
    """Return the events of other streams that device events had to wait for.

    A `cudaStreamWaitEvent` holds back what is launched on its stream after it, until what was
    on the other stream when `cudaEventRecord` was called has run. Kineto records both, where
    synchronization events are switched on.
    """
    timeline, syncs = trace.timeline, trace.timeline.syncs
    # Most traces have none: numpy's isin() would load masked arrays to find that out.
    rows = np.flatnonzero(syncs.wait_on_stream != MISSING)
    rows = rows[[timeline.names[index] == _WAIT for index in syncs.name[rows].tolist()]]
    if not len(rows):
        return StreamWaits(rows, rows)
    recorded, rec_known = _called_at(timeline, syncs.wait_on_correlation[rows])
    waiting, wait_known = _called_at(timeline, syncs.correlation[rows])
    device, known = syncs.device[rows].astype(np.int64), rec_known & wait_known
    queues = _Queues(trace)
    held = queues.find(device, syncs.stream[rows], waiting, after=True)
    waited_for = queues.find(device, syncs.wait_on_stream[rows], recorded, after=False)
    found = known & (held >= 0) & (waited_for >= 0)
    return StreamWaits(held[found], waited_for[found])


def _called_at(timeline: Timeline, correlation: Int64) -> tuple[Int64, Mask]:
    """Return when the calls with some correlations began, and whether the trace holds them."""
    host = timeline.host
    rows = np.flatnonzero(host.correlation != MISSING)
    ids = host.correlation[rows]
    order = np.argsort(ids, kind="stable")
    ids = np.append(ids[order], MISSING)
    at = np.searchsorted(ids[:-1], correlation, side="right") - 1
    return np.append(host.start_ns[rows[order]], 0)[at], (ids[at] == correlation) & (at >= 0)


class _Queues:
    """The launches on each stream, in order."""

    def __init__(self, trace: LinkedTrace) -> None:
        timeline, launches = trace.timeline, trace.launches
        rows = np.flatnonzero(launches.call >= 0)
        launched = timeline.host.start_ns[launches.call[rows]]
        order = np.argsort(launched, kind="stable")
        self._rows, self._launched = rows[order], launched[order]
        self._device = timeline.device.device[self._rows]
        self._stream = timeline.device.stream[self._rows]

    def find(self, device: Int64, stream: Int64, time: Int64, *, after: bool) -> Int64:
        """Return the first device row launched after each time on a stream, or the last before.

        -1 where there is none.
        """
        found = np.full(len(time), -1, dtype=np.int64)
        for one, number in set(zip(device.tolist(), stream.tolist(), strict=True)):
            asked = np.flatnonzero((device == one) & (stream == number))
            queue = np.flatnonzero((self._device == one) & (self._stream == number))
            at = np.searchsorted(
                self._launched[queue], time[asked], side="right" if after else "left"
            )
            rows = np.concatenate(([-1], self._rows[queue], [-1]))
            found[asked] = rows[at + after]
        return found


OTHER_STREAM_NS = 10_000
"""A queued event that starts this soon after another stream's ended is taken to have waited for
it, where the trace does not record who waited for whom."""


class DeviceStarts(Struct, frozen=True):
    """The cause of each device event's start.

    `by_launch` tells whether it was the launching call, `before` is else the lower row that ended
    last of those it waited for (-1 for none), `since` when that call or row ended.
    """

    by_launch: Mask
    before: Int32
    since: Int64


def launch_ends(trace: LinkedTrace) -> Int64:
    """Return when each device event's launching call had ended; -1 where there is none."""
    device = trace.timeline.device
    ends: Int64 = np.full(len(device), -1, dtype=np.int64)
    call = trace.launches.call
    known = np.flatnonzero(call >= 0)
    # A launch cannot have ended after its kernel began, whatever the clocks say.
    ends[known] = np.minimum(trace.nesting.end_ns[call[known]], device.start_ns[known])
    return ends


def device_starts(trace: LinkedTrace) -> DeviceStarts:
    """Find what every device event's start waited for."""
    device, launches = trace.timeline.device, trace.launches
    earlier, launched = previous_on_stream(trace.timeline), launch_ends(trace)
    start, end = device.start_ns, np.append(device.end_ns, -1)  # found by index -1
    earlier = np.where(end[earlier] <= start, earlier, -1)
    waited = _last_waited(trace, end)
    if waited is not None:
        earlier = np.where(end[waited] > end[earlier], waited, earlier)
    known = np.maximum(end[earlier], launched)
    by_end = np.append(np.argsort(device.end_ns, kind="stable"), -1)
    other = by_end[np.searchsorted(np.sort(device.end_ns), start, side="right") - 1]
    near = start - end[other] <= OTHER_STREAM_NS
    unexplained = (start - known > OTHER_STREAM_NS) | (known < 0)
    fits = (other >= 0) & (other < np.arange(len(device)))
    earlier = np.where(unexplained & fits & (near | (known < 0)), other, earlier)
    by_launch = (launches.call >= 0) & (launched >= end[earlier])
    since = np.where(by_launch, launched, np.where(earlier >= 0, end[earlier], start))
    return DeviceStarts(by_launch, np.where(by_launch, -1, earlier).astype(np.int32), since)


def _last_waited(trace: LinkedTrace, end: Int64) -> Int32 | None:
    """Return the row that ended last of those each row had to wait for, -1 for none."""
    waited, start = stream_waits(trace), trace.timeline.device.start_ns
    fits = (end[waited.waited_for] <= start[waited.row]) & (waited.waited_for < waited.row)
    held, waited_for = waited.row[fits], waited.waited_for[fits]
    if not len(held):
        return None
    latest = np.full(len(start), -1, dtype=np.int32)
    by_end = np.argsort(end[waited_for], kind="stable")  # the last one written stays
    latest[held[by_end]] = waited_for[by_end]
    return latest
