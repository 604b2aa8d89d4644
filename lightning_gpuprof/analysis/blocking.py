"""Host calls that return only when the device has finished something, and what that was."""

import re
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline, of_category

_FREE = re.compile(r"(cuda|hip)Free(Host)?$|cuMemFree(_v2)?$|hipHostFree$")
"""These wait for the device before they give memory back."""


@dataclass(frozen=True)
class Wait:
    """A call that waited for the device.

    Args:
        row: Its host row.
        start_ns: When it began.
        end_ns: When it returned.
        device_row: The device event whose end let it return.
    """

    row: int
    start_ns: int
    end_ns: int
    device_row: int


def waits(timeline: Timeline, nesting: Nesting, launches: Launches) -> list[Wait]:
    """Find the calls that waited for device work, in order of their return.

    A synchronizing call, or one that frees memory, waited for the last event that ended before
    it returned; a copy for itself. A call within which nothing ended did not wait.
    """
    host, device = timeline.host, timeline.device
    if not len(device):
        return []
    order = np.argsort(device.end_ns, kind="stable")
    ends = device.end_ns[order].tolist()
    copy_of = _copies(timeline, launches)
    found = []
    for row in np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver")).tolist():
        name = timeline.names[host.name[row]]
        start, end = int(host.start_ns[row]), int(nesting.end_ns[row])
        if waits_for_all(name):
            last = bisect_right(ends, end) - 1
            waited = int(order[last]) if last >= 0 else -1
        else:
            waited = copy_of.get(row, -1)
        if waited >= 0 and start < device.end_ns[waited] <= end and device.dur_ns[waited] > 0:
            found.append(Wait(row, start, end, waited))
    found.sort(key=lambda wait: wait.end_ns)
    return found


def waits_for_all(name: str) -> bool:
    """Tell whether a call waits for work that was queued before it.

    >>> [waits_for_all(call) for call in ("cudaDeviceSynchronize", "hipFree", "cudaMalloc")]
    [True, True, False]
    """
    return call_kind(name) == "sync" or _FREE.match(name) is not None


def _copies(timeline: Timeline, launches: Launches) -> dict[int, int]:
    """Return, by host row of a copy's call, the copy's device row; last of several."""
    device = timeline.device
    found = {}
    for row in np.flatnonzero(launches.call >= 0).tolist():
        call = int(launches.call[row])
        name = timeline.names[timeline.host.name[call]]
        if device.category[row] == CATEGORY_ID["gpu_memcpy"] or blocks_as_copy(name):
            found[call] = row
    return found
