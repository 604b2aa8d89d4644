"""What each device event's start waited for last: its launch, or other work on the device."""

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from lightning_gpuprof.analysis.device_waits import previous_on_stream, stream_waits
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import Int64, Timeline

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

    by_launch: npt.NDArray[np.bool_]
    before: Int64
    since: Int64


def launch_ends(timeline: Timeline, nesting: Nesting, launches: Launches) -> Int64:
    """Return when each device event's launching call had ended; -1 where there is none."""
    ended = np.append(nesting.end_ns, -1)[launches.call]
    # A launch cannot have ended after its kernel began, whatever the clocks say.
    launched: Int64 = np.minimum(ended, timeline.device.start_ns)
    return np.where(launches.call >= 0, launched, -1)


def device_starts(timeline: Timeline, nesting: Nesting, launches: Launches) -> DeviceStarts:
    """Find what every device event's start waited for."""
    device = timeline.device
    rows, start = np.arange(len(device)), device.start_ns
    end = np.append(device.end_ns, -1)  # found by index -1
    launched = launch_ends(timeline, nesting, launches)
    before = previous_on_stream(timeline)
    before = np.where(end[before] <= start, before, -1)
    told = stream_waits(timeline, launches)
    fits = (end[told.waited_for] <= start[told.row]) & (told.waited_for < told.row)
    held, waited_for = told.row[fits], told.waited_for[fits]
    latest = np.full(len(device), -1, dtype=np.int64)
    by_end = np.argsort(end[waited_for], kind="stable")  # the last one written stays
    latest[held[by_end]] = waited_for[by_end]
    before = np.where(end[latest] > end[before], latest, before)

    known = np.maximum(end[before], launched)
    other = _last_ended(device.end_ns, start)
    near = start - end[other] <= OTHER_STREAM_NS
    unexplained = (start - known > OTHER_STREAM_NS) | (known < 0)
    taken = unexplained & (other >= 0) & (other < rows) & (near | (known < 0))
    before = np.where(taken, other, before)

    by_launch = (launches.call >= 0) & (launched >= end[before])
    since = np.where(by_launch, launched, np.where(before >= 0, end[before], start))
    return DeviceStarts(by_launch, np.where(by_launch, -1, before), since)


def _last_ended(end_ns: Int64, time: Int64) -> Int64:
    """Return the row that had ended last at each time; -1 for none."""
    by_end = np.argsort(end_ns, kind="stable")
    at = np.searchsorted(end_ns[by_end], time, side="right") - 1
    return np.append(by_end, -1)[at]
