"""Host calls that return only when the device has finished something, and what that was."""

import re

import numpy as np

from lightning_gpuprof.analysis.trace.copies import may_wait
from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import of_category

_FREE = re.compile(r"(cuda|hip)Free(Host)?$|cuMemFree(_v2)?$|hipHostFree$")
"""These wait for the device before they give memory back."""


def waits(trace: LinkedTrace) -> tuple[Int64, Int64]:
    """Find the calls that waited for device work: their rows, and that of each one's work.

    A synchronizing call, or one that frees memory, waited for the last event that ended before
    it returned; a copy for itself. A call within which nothing ended did not wait.
    """
    timeline, call, end_ns = trace.timeline, trace.launches.call, trace.nesting.end_ns
    host, device = timeline.host, timeline.device
    calls = of_category(host, "cuda_runtime", "cuda_driver")
    blocking = np.append(calls & named(timeline, blocks_as_copy), False)  # one more, by index -1
    copies = np.flatnonzero((may_wait(timeline) | blocking[call]) & (call >= 0))
    for_all = np.flatnonzero(calls & named(timeline, waits_for_all))
    by_end = np.argsort(device.end_ns, kind="stable")
    last = np.searchsorted(device.end_ns[by_end], end_ns[for_all], side="right") - 1
    for_all, last = for_all[last >= 0], last[last >= 0]
    rows = np.concatenate((call[copies], for_all))
    waited = np.concatenate((copies, by_end[last]))
    order = np.argsort(rows, kind="stable")
    order = order[np.append(np.diff(rows[order]) > 0, True)[: len(order)]]  # the last of several
    rows, waited = rows[order], waited[order]
    done, dur_ns = device.end_ns[waited], device.dur_ns[waited]
    found = (host.start_ns[rows] < done) & (done <= end_ns[rows]) & (dur_ns > 0)
    return rows[found], waited[found]


def waits_for_all(name: str) -> bool:
    """Tell whether a call waits for work that was queued before it.

    >>> [waits_for_all(call) for call in ("cudaDeviceSynchronize", "hipFree", "cudaMalloc")]
    [True, True, False]
    """
    return call_kind(name) == "sync" or _FREE.match(name) is not None
