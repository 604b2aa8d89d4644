"""Groups a range of steps into few enough buckets to draw; no step is dropped."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Int64


@dataclass(frozen=True)
class Buckets:
    """Buckets of consecutive steps; every array has one value per bucket."""

    first: Int64
    """Index of the bucket's first step."""
    count: Int64
    """How many steps it holds."""
    mean_ns: dict[str, Int64]
    """Mean time by the name of the part."""
    max_ns: Int64
    slowest: Int64
    """Index of its longest step."""
    flags: Int64
    """All flags of its steps."""


def bucket_steps(
    dur_ns: Int64,
    parts: Mapping[str, Int64],
    flags: Int64,
    *,
    first: int,
    last: int,
    buckets: int,
) -> Buckets:
    """Group the steps `first` to `last` (exclusive) into at most `buckets` buckets.

    Buckets differ in length by at most one step. Means are rounded to whole nanoseconds.
    """
    last = min(last, len(dur_ns))
    steps = max(0, last - first)
    if not steps:
        empty = np.zeros(0, dtype=np.int64)
        return Buckets(empty, empty, {name: empty for name in parts}, empty, empty, empty)
    starts = np.arange(min(buckets, steps), dtype=np.int64) * steps // min(buckets, steps)
    count = np.diff(np.append(starts, steps))
    window = slice(first, last)
    return Buckets(
        first=starts + first,
        count=count,
        mean_ns={
            name: np.rint(np.add.reduceat(values[window], starts) / count).astype(np.int64)
            for name, values in parts.items()
        },
        max_ns=np.maximum.reduceat(dur_ns[window], starts),
        slowest=_slowest(dur_ns[window], starts, count) + first,
        flags=np.bitwise_or.reduceat(flags[window], starts),
    )


def _slowest(dur_ns: Int64, starts: Int64, count: Int64) -> Int64:
    """Return the index of every bucket's longest step, the earliest of several that are equal."""
    longest = np.repeat(np.maximum.reduceat(dur_ns, starts), count)
    places = np.flatnonzero(dur_ns == longest)
    return places[np.searchsorted(places, starts)].astype(np.int64)
