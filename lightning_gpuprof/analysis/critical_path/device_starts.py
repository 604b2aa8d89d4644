"""The causes of device events' starts: launches, the event before, other streams."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import Timeline

OTHER_STREAM_NS = 10_000
"""A queued event that starts this soon after another stream's ended is taken to have waited for
it: torch does not record who waited for whom."""


class DeviceStarts(Struct, frozen=True):
    """The cause of each device event's start.

    `by_launch` tells whether it was the launching call, `before` is else the lower row that ended
    last of those it waited for (-1 for none), `since` when that call or row ended.
    """

    by_launch: Mask
    before: Int32
    since: Int64


def device_starts(trace: LinkedTrace) -> DeviceStarts:
    """Find what every device event's start waited for."""
    device, launches = trace.timeline.device, trace.launches
    earlier, launched = _previous_on_stream(trace.timeline), _launch_ends(trace)
    start, end = device.start_ns, np.append(device.end_ns, -1)  # found by index -1
    earlier = np.where(end[earlier] <= start, earlier, -1)
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


def _previous_on_stream(timeline: Timeline) -> Int32:
    """Return, for each device event, the row before it on its stream; -1 for none."""
    device = timeline.device
    previous = np.full(len(device), -1, dtype=np.int32)
    # Rows are in order of start, and stay so within a stream.
    order = np.lexsort((device.stream, device.device)).astype(np.int32)
    same = (np.diff(device.stream[order]) == 0) & (np.diff(device.device[order]) == 0)
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _launch_ends(trace: LinkedTrace) -> Int64:
    """Return when each device event's launching call had ended; -1 where there is none."""
    device, call = trace.timeline.device, trace.launches.call
    ends: Int64 = np.full(len(device), -1, dtype=np.int64)
    known = np.flatnonzero(call >= 0)
    # A launch cannot have ended after its kernel began, whatever the clocks say.
    ends[known] = np.minimum(trace.nesting.end_ns[call[known]], device.start_ns[known])
    return ends
