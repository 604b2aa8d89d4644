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
from lightning_gpuprof.arrays import Int64, Mask
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


def host_stretches(
    timeline: Timeline, launches: Launches, before: Int64, host_ns: Int64, causes: Sequence[str]
) -> HostStretches | None:
    """Sum up stretches; None where too few launches tell the host's pace.

    `before` is, for each gap, the row of the event that ended last before it, `host_ns` the time
    until its launch (columns) by what the host did (rows, named by `causes`).
    """
    pace_ns = launch_pace_ns(timeline, launches)
    if pace_ns is None:
        return None
    to_host = passing(timeline, lambda name: copy_kind(name)[0] == "DtoH")
    long = host_ns.sum(axis=0) >= STRETCH * pace_ns
    copied = long & (before >= 0) & to_host[timeline.device.name[before]]

    def by_cause(gaps: Mask) -> dict[str, int]:
        totals = host_ns[:, gaps].sum(axis=1).tolist()
        return {cause: ns for cause, ns in zip(causes, totals, strict=True) if ns}

    counts = int(long.sum()), int(copied.sum())
    return HostStretches(pace_ns, counts[0], by_cause(long), counts[1], by_cause(copied))


def launch_pace_ns(timeline: Timeline, launches: Launches) -> int | None:
    """Return the median time from one launching call to the same thread's next.

    None of fewer than `MIN_LAUNCHES`.
    """
    thread, start = timeline.host.thread[launches.calls], timeline.host.start_ns[launches.calls]
    apart = [np.diff(start[thread == one]) for one in used(thread)]
    every = np.concatenate(apart) if apart else start
    return int(np.median(every)) if len(every) >= MIN_LAUNCHES else None
