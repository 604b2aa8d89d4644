"""Host calls that return only when the device has finished something, and what that was."""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from lightning_gpuprof.analysis.grouping import used
from lightning_gpuprof.analysis.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Int32, Int64, Timeline, of_category

_FREE = re.compile(r"(cuda|hip)Free(Host)?$|cuMemFree(_v2)?$|hipHostFree$")
"""These wait for the device before they give memory back."""


class Waits(Struct, frozen=True):
    """Calls that waited for the device, in order of their return.

    Args:
        row: Host row of each.
        start_ns: When it began.
        end_ns: When it returned.
        device_row: The device event whose end let it return.
    """

    row: Int64
    start_ns: Int64
    end_ns: Int64
    device_row: Int64


def waits(timeline: Timeline, nesting: Nesting, launches: Launches) -> Waits:
    """Find the calls that waited for device work.

    A synchronizing call, or one that frees memory, waited for the last event that ended before
    it returned; a copy for itself. A call within which nothing ended did not wait.
    """
    host, device = timeline.host, timeline.device
    rows = np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver"))
    if not len(device):
        rows = rows[:0]
    start, end = host.start_ns[rows], nesting.end_ns[rows]
    waited = _copies(timeline, launches)[rows]
    for_all = np.flatnonzero(_named(timeline, host.name[rows], waits_for_all))
    by_end = np.argsort(device.end_ns, kind="stable")
    last = np.searchsorted(device.end_ns[by_end], end[for_all], side="right") - 1
    waited[for_all] = np.append(by_end, -1)[last]
    done, dur = np.append(device.end_ns, 0)[waited], np.append(device.dur_ns, 0)[waited]
    found = np.flatnonzero((waited >= 0) & (start < done) & (done <= end) & (dur > 0))
    found = found[np.argsort(end[found], kind="stable")]
    return Waits(rows[found], start[found], end[found], waited[found])


def waits_for_all(name: str) -> bool:
    """Tell whether a call waits for work that was queued before it.

    >>> [waits_for_all(call) for call in ("cudaDeviceSynchronize", "hipFree", "cudaMalloc")]
    [True, True, False]
    """
    return call_kind(name) == "sync" or _FREE.match(name) is not None


def _copies(timeline: Timeline, launches: Launches) -> Int64:
    """Return, by host row of a copy's call, the copy's device row; last of several, else -1."""
    host, device = timeline.host, timeline.device
    rows = np.flatnonzero(launches.call >= 0)
    call = launches.call[rows]
    copies = device.category[rows] == CATEGORY_ID["gpu_memcpy"]
    copies |= _named(timeline, host.name[call], blocks_as_copy)
    found = np.full(len(host), -1, dtype=np.int64)
    found[call[copies]] = rows[copies]
    return found


def _named(timeline: Timeline, name: Int32, test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Tell for each row of a name column whether its name passes a test."""
    passes = np.zeros(len(timeline.names), dtype=np.bool_)
    passes[[index for index in used(name) if test(timeline.names[index])]] = True
    return passes[name]
