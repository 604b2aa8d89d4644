"""Idle time of a device in which the host launched nothing for long: it did something else.

A host that launches kernels one by one leaves gaps as long as it takes from one launch to the next.
A gap many times as long is of another kind: Python, another library's work, the loop's hooks.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.copies import copy_kind
from lightning_gpuprof.analysis.trace.grouping import passing, used
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import Timeline

STRETCH = 10
"""In the time of so many launches at its own pace a host that only launches has launched."""
MIN_LAUNCHES = 20
"""Fewer tell no pace."""


class HostStretches(Struct, frozen=True):
    """Idle time in gaps in which the host launched nothing for `STRETCH` times its pace."""

    pace_ns: int
    count: int
    causes: dict[str, int]
    copied_count: int
    copied: dict[str, int]


class StretchSums:
    """Adds up stretches, some gaps at a time.

    Args:
        timeline: The trace.
        launches: Its launching calls.
        before: For each gap the row of the event that ended last before it, -1 for none.
    """

    def __init__(self, timeline: Timeline, launches: Launches, before: Int64) -> None:
        self._pace_ns = launch_pace_ns(timeline, launches)
        to_host = passing(timeline, lambda name: copy_kind(name)[0] == "DtoH")
        self._copied = (before >= 0) & to_host[timeline.device.name[before]]
        self._total_ns: Int64 | int = 0
        self._copied_ns: Int64 | int = 0
        self._count = self._copied_count = 0

    def add(self, parts: Int64, some: slice) -> None:
        """Add gaps: the time (columns) by what the host did (rows) until it launched."""
        if self._pace_ns is None:
            return
        long = parts.sum(axis=0) >= STRETCH * self._pace_ns
        copied = long & self._copied[some]
        self._total_ns += parts[:, long].sum(axis=1)
        self._count += int(long.sum())
        self._copied_ns += parts[:, copied].sum(axis=1)
        self._copied_count += int(copied.sum())

    def over(self, causes: Sequence[str]) -> HostStretches | None:
        """Return the sums; None where no pace is known."""
        if self._pace_ns is None:
            return None
        total, copied = (_by_cause(causes, ns) for ns in (self._total_ns, self._copied_ns))
        return HostStretches(self._pace_ns, self._count, total, self._copied_count, copied)


def _by_cause(causes: Sequence[str], total_ns: Int64 | int) -> dict[str, int]:
    totals = np.broadcast_to(total_ns, len(causes)).tolist()
    return {cause: ns for cause, ns in zip(causes, totals, strict=True) if ns}


def launch_pace_ns(timeline: Timeline, launches: Launches) -> int | None:
    """Return the median time from one launching call to the same thread's next.

    None of fewer than `MIN_LAUNCHES`.
    """
    thread, start = timeline.host.thread[launches.calls], timeline.host.start_ns[launches.calls]
    apart = [np.diff(start[thread == one]) for one in used(thread)]
    every = np.concatenate(apart) if apart else start
    return int(np.median(every)) if len(every) >= MIN_LAUNCHES else None
