"""Named host ranges by name: annotations, NVTX and roctx ranges, allocations, library calls."""

from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import sums_by_name
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
    kind = dict(zip(rows.name.tolist(), rows.category.tolist(), strict=True))
    return tuple(
        RangeStats(
            one.name, CATEGORIES[kind[one.key]], one.count, one.total_ns, one.min_ns, one.max_ns
        )
        for one in sums_by_name(timeline.names, rows.name, rows.dur_ns)[:MOST]
    )
