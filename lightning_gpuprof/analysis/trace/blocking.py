"""Host calls that return only when the device has finished something, and what that was."""

import re
from collections.abc import Callable

import numpy as np

from lightning_gpuprof.analysis.trace.copies import may_wait
from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import Timeline, of_category

_FREE = re.compile(r"(cuda|hip)Free(Host)?$|cuMemFree(_v2)?$|hipHostFree$")
"""These wait for the device before they give memory back."""


def waits(trace: LinkedTrace) -> tuple[Int64, Int64]:
    """Find the calls that waited for device work: their rows, and that of each one's work.

    A synchronizing call, or one that frees memory, waited for the last event that ended before
    it returned; a copy for itself. A call within which nothing ended did not wait.
    """
    host, device = trace.timeline.host, trace.timeline.device
    rows, waited = _waiting(trace)
    start, end = host.start_ns[rows], trace.nesting.end_ns[rows]
    dur = device.dur_ns[waited]
    done = device.start_ns[waited] + dur
    found = (start < done) & (done <= end) & (dur > 0)
    return rows[found], waited[found]


def waits_for_all(name: str) -> bool:
    """Tell whether a call waits for work that was queued before it.

    >>> [waits_for_all(call) for call in ("cudaDeviceSynchronize", "hipFree", "cudaMalloc")]
    [True, True, False]
    """
    return call_kind(name) == "sync" or _FREE.match(name) is not None


def _waiting(trace: LinkedTrace) -> tuple[Int64, Int64]:
    """Return calls that may have waited, by rising host row, and the device row of each."""
    timeline, device = trace.timeline, trace.timeline.device
    if not len(device):
        none = np.zeros(0, dtype=np.int64)
        return none, none
    copies = _copies(trace)
    for_all = _calls_named(timeline, waits_for_all)
    by_end = np.argsort(device.end_ns, kind="stable")
    last = np.searchsorted(device.end_ns[by_end], trace.nesting.end_ns[for_all], side="right") - 1
    for_all, last = for_all[last >= 0], last[last >= 0]
    rows = np.concatenate((trace.launches.call[copies], for_all))
    waited = np.concatenate((copies, by_end[last]))
    order = np.argsort(rows, kind="stable")
    order = order[np.append(np.diff(rows[order]) > 0, True)[: len(order)]]  # the last of several
    return rows[order], waited[order]


def _copies(trace: LinkedTrace) -> Int64:
    """Return the device rows of copies whose call is known, or that waits for its work."""
    timeline, launches = trace.timeline, trace.launches
    is_copy = may_wait(timeline)
    blocking = _calls_named(timeline, blocks_as_copy)
    if len(blocking):
        calls = np.zeros(len(timeline.host) + 1, dtype=np.bool_)  # one more, found by index -1
        calls[blocking] = True
        is_copy |= calls[launches.call]
    return np.flatnonzero(is_copy & (launches.call >= 0))


def _calls_named(timeline: Timeline, test: Callable[[str], bool]) -> Int64:
    """Return the rows of runtime and driver calls whose names pass a test."""
    calls = of_category(timeline.host, "cuda_runtime", "cuda_driver")
    return np.flatnonzero(calls & named(timeline, test))
