"""Sums and look-ups by an index column. Names, threads and devices are small ints."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import Timeline

Index = npt.NDArray[np.signedinteger]


def named(timeline: Timeline, test: Callable[[str], bool]) -> Mask:
    """Return which host events have a name that passes a test."""
    found: Mask = passing(timeline, test)[timeline.host.name]
    return found


def passing(timeline: Timeline, test: Callable[[str], bool]) -> Mask:
    """Return which of a trace's names pass a test; one that does not, where it has none."""
    return np.array([test(name) for name in timeline.names] or [False])


def used(column: Index) -> list[int]:
    """Return the distinct values of a column of small non-negative ints, rising."""
    values: list[int] = np.flatnonzero(np.bincount(column)).tolist()
    return values


def distinct(column: Index) -> Index:
    """Return the distinct values of any int column, rising.

    `np.unique` would do, and import numpy's masked arrays: a tenth of a short command's time.
    """
    ordered = np.sort(column)
    first: Index = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return first


def grouped(column: Index) -> tuple[Index, Int64]:
    """Return the distinct values of any int column, rising, and each row's index into them."""
    values = distinct(column)
    return values, np.searchsorted(values, column).astype(np.int64)


def counted(group: Index, groups: int) -> Int64:
    """Count rows by group."""
    return np.bincount(group, minlength=groups).astype(np.int64)


def summed(group: Index, values: npt.NDArray[np.generic], groups: int) -> Int64:
    """Sum integers by group; exactly, up to 2**53."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)


def lowest(group: Index, values: Index, groups: int) -> Int64:
    """Return the lowest value of each group, the largest of 64 bits where it has none."""
    low = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(low, group, values.astype(np.int64))
    return low


def highest(group: Index, values: Index, groups: int) -> Int64:
    """Return the highest value of each group, 0 where it has none above."""
    high = np.zeros(groups, dtype=np.int64)
    np.maximum.at(high, group, values.astype(np.int64))
    return high
