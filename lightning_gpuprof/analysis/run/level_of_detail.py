"""A range of steps in few enough buckets to draw: every step is in one, none is dropped."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Int64


@dataclass(frozen=True)
class Buckets:
    """Consecutive steps taken together; all arrays have one value per bucket."""

    first: Int64
    count: Int64
    mean_ns: dict[str, Int64]
    max_ns: Int64
    slowest: Int64
    flags: Int64


def bucket_steps(
    dur_ns: Int64,
    parts: Mapping[str, Int64],
    flags: Int64,
    *,
    first: int,
    last: int,
    buckets: int,
) -> Buckets:
    """Take the steps `first` to `last` (exclusive) together in at most `buckets` buckets.

    Buckets differ in length by at most one step. Means are rounded to whole nanoseconds.
    """
    last = min(last, len(dur_ns))
    steps = max(0, last - first)
    if not steps:
        none = np.zeros(0, dtype=np.int64)
        return Buckets(none, none, {name: none for name in parts}, none, none, none)
    starts = np.arange(min(buckets, steps), dtype=np.int64) * steps // min(buckets, steps)
    count = np.diff(np.append(starts, steps))
    window = slice(first, last)
    slow_ns = np.maximum.reduceat(dur_ns[window], starts)
    return Buckets(
        first=starts + first,
        count=count,
        mean_ns={
            name: np.rint(np.add.reduceat(values[window], starts) / count).astype(np.int64)
            for name, values in parts.items()
        },
        max_ns=slow_ns,
        slowest=_slowest(dur_ns[window], starts, count) + first,
        flags=np.bitwise_or.reduceat(flags[window], starts),
    )


def _slowest(dur_ns: Int64, starts: Int64, count: Int64) -> Int64:
    """Return the index of the longest step of each bucket, the earliest of equals."""
    longest = np.repeat(np.maximum.reduceat(dur_ns, starts), count)
    places = np.flatnonzero(dur_ns == longest)
    return places[np.searchsorted(places, starts)].astype(np.int64)
