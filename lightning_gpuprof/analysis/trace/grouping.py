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
    """Return the distinct values of a column of small non-negative ints, rising.

    >>> used(np.array([3, 1, 3]))
    [1, 3]
    """
    values: list[int] = np.flatnonzero(np.bincount(column)).tolist()
    return values


def distinct(column: Index) -> Index:
    """Return the distinct values of any int column, rising.

    `np.unique` would do, and import numpy's masked arrays: a tenth of a short command's time.

    >>> distinct(np.array([5, -1, 5])).tolist()
    [-1, 5]
    """
    ordered = np.sort(column)
    first: Index = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return first


def grouped(column: Index) -> tuple[Index, Int64]:
    """Return the distinct values of any int column, rising, and each row's index into them.

    >>> values, index = grouped(np.array([70, 5, 70]))
    >>> values.tolist(), index.tolist()
    ([5, 70], [1, 0, 1])
    """
    values = distinct(column)
    return values, np.searchsorted(values, column).astype(np.int64)


def counted(group: Index, groups: int) -> Int64:
    """Count rows by group.

    >>> counted(np.array([0, 1, 0]), 3).tolist()
    [2, 1, 0]
    """
    return np.bincount(group, minlength=groups).astype(np.int64)


def summed(group: Index, values: npt.NDArray[np.generic], groups: int) -> Int64:
    """Sum integers by group; exactly, up to 2**53.

    >>> summed(np.array([0, 1, 0]), np.array([5, 1, 2]), 2).tolist()
    [7, 1]
    """
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)


def lowest(group: Index, values: Index, groups: int) -> Int64:
    """Return the lowest value of each group, the largest of 64 bits where it has none.

    >>> lowest(np.array([0, 1, 0]), np.array([5, 1, 2]), 2).tolist()
    [2, 1]
    """
    low = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(low, group, values.astype(np.int64))
    return low


def highest(group: Index, values: Index, groups: int) -> Int64:
    """Return the highest value of each group, 0 where it has none above.

    >>> highest(np.array([0, 1, 0]), np.array([5, 1, 2]), 3).tolist()
    [5, 1, 0]
    """
    high = np.zeros(groups, dtype=np.int64)
    np.maximum.at(high, group, values.astype(np.int64))
    return high
