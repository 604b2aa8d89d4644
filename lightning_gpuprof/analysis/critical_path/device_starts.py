"""What each device event's start waited for last: its launch, or other work on the device."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.critical_path.device_waits import previous_on_stream, stream_waits
from lightning_gpuprof.analysis.trace.grouping import blocks
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int32, Int64, Mask

OTHER_STREAM_NS = 10_000
"""A queued event that starts this soon after another stream's ended is taken to have waited for
it, where the trace does not record who waited for whom."""


class DeviceStarts(Struct, frozen=True):
    """For each device row, what let it begin.

    Args:
        by_launch: Whether that was its launching call.
        before: The device row that ended last of those it waited for, always a lower one; -1
            where it was the launch, or is not known.
        since: When that launch or row had ended; its own start where neither is known.
    """

    by_launch: Mask
    before: Int32
    since: Int64


def launch_ends(trace: LinkedTrace) -> Int64:
    """Return when each device event's launching call had ended; -1 where there is none."""
    device = trace.timeline.device
    ends: Int64 = np.full(len(device), -1, dtype=np.int64)
    for block in blocks(len(ends)):
        call = trace.launches.call[block]
        known = np.flatnonzero(call >= 0)
        # A launch cannot have ended after its kernel began, whatever the clocks say.
        ends[block][known] = np.minimum(
            trace.nesting.end_ns[call[known]], device.start_ns[block][known]
        )
    return ends


def device_starts(trace: LinkedTrace) -> DeviceStarts:
    """Find what every device event's start waited for."""
    device, launches = trace.timeline.device, trace.launches
    before, since = previous_on_stream(trace.timeline), launch_ends(trace)
    by_launch = np.zeros(len(device), dtype=np.bool_)
    end = np.append(device.end_ns, -1)  # found by index -1
    told, last_ended = _last_told(trace, end), _Ended(device.end_ns)
    for block in blocks(len(device)):
        start, launched = device.start_ns[block], since[block]
        earlier = before[block]
        earlier = np.where(end[earlier] <= start, earlier, -1)
        if told is not None:
            latest = told[block]
            earlier = np.where(end[latest] > end[earlier], latest, earlier)
        known = np.maximum(end[earlier], launched)
        other = last_ended.at(start)
        near = start - end[other] <= OTHER_STREAM_NS
        unexplained = (start - known > OTHER_STREAM_NS) | (known < 0)
        rows = np.arange(block.start, block.stop)
        taken = unexplained & (other >= 0) & (other < rows) & (near | (known < 0))
        earlier = np.where(taken, other, earlier)
        launch = (launches.call[block] >= 0) & (launched >= end[earlier])
        by_launch[block], before[block] = launch, np.where(launch, -1, earlier)
        because = np.where(earlier >= 0, end[earlier], start)
        since[block] = np.where(launch, launched, because)
    return DeviceStarts(by_launch, before, since)


def _last_told(trace: LinkedTrace, end: Int64) -> Int32 | None:
    """Return the row that ended last of those each row was told to wait for, -1 for none."""
    told, start = stream_waits(trace), trace.timeline.device.start_ns
    fits = (end[told.waited_for] <= start[told.row]) & (told.waited_for < told.row)
    held, waited_for = told.row[fits], told.waited_for[fits]
    if not len(held):
        return None
    latest = np.full(len(start), -1, dtype=np.int32)
    by_end = np.argsort(end[waited_for], kind="stable")  # the last one written stays
    latest[held[by_end]] = waited_for[by_end]
    return latest


class _Ended:
    """Tells which row had ended last at a time."""

    def __init__(self, end_ns: Int64) -> None:
        self._rows = np.append(np.argsort(end_ns, kind="stable").astype(np.int32), -1)
        self._ends = np.sort(end_ns)

    def at(self, time: Int64) -> Int32:
        """Return the row that had ended last at each time; -1 for none."""
        found: Int32 = self._rows[np.searchsorted(self._ends, time, side="right") - 1]
        return found
