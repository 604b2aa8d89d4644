"""Named host ranges by name: annotations, NVTX and roctx ranges, allocations, library calls."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import counted, grouped, highest, lowest, summed
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline, of_category, select

MOST = 200
"""Names can hold numbers of steps or sizes; the longest tell enough."""


class RangeStats(Struct, frozen=True):
    """All ranges with one name; they may lie inside each other."""

    name: str
    category: str
    count: int
    total_ns: int
    min_ns: int
    max_ns: int


def host_ranges(
    timeline: Timeline, start_ns: int | None = None, end_ns: int | None = None
) -> tuple[RangeStats, ...]:
    """Sum up what host threads did that is neither an operator nor a runtime call."""
    host = timeline.host
    wanted = of_category(host, "user_annotation", "other")
    if start_ns is not None:
        wanted &= host.start_ns >= start_ns
    if end_ns is not None:
        wanted &= host.start_ns < end_ns
    rows = select(host, wanted)
    names, group = grouped(rows.name)
    total, low, high = (of(group, rows.dur_ns, len(names)) for of in (summed, lowest, highest))
    columns = counted(group, len(names)), total, low, high
    kind = np.zeros(len(names), dtype=np.int8)
    kind[group] = rows.category
    longest = np.lexsort((names, -total))[:MOST].tolist()
    return tuple(
        RangeStats(timeline.names[names[i]], CATEGORIES[kind[i]], *(int(of[i]) for of in columns))
        for i in longest
    )
