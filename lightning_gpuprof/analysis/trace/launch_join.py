"""Joins what ran on a device to the host call that launched it, by correlation id."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import distinct
from lightning_gpuprof.arrays import Int32
from lightning_gpuprof.traces.timeline import MISSING, Timeline, of_category


class Launches(Struct, frozen=True):
    """For each row of the device table: its launching call.

    Args:
        call: Row in the host table, -1 where the trace holds none.
        calls: Distinct host rows that launched anything, rising.
    """

    call: Int32
    calls: Int32


def join_launches(timeline: Timeline) -> Launches:
    """Find the launching call of each device event."""
    runtime = np.flatnonzero(of_category(timeline.host, "cuda_runtime", "cuda_driver"))
    ids = timeline.host.correlation[runtime]
    runtime, ids = runtime[ids != MISSING], ids[ids != MISSING]
    order = np.argsort(ids, kind="stable")
    runtime, ids = runtime[order], ids[order]
    wanted = timeline.device.correlation
    call = np.full(len(wanted), -1, dtype=np.int32)
    if len(ids):
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        found = (ids[at] == wanted) & (wanted != MISSING)
        call[found] = runtime[at[found]]
    return Launches(call, distinct(call[call >= 0]).astype(np.int32))
