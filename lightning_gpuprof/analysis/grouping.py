"""Sums by an index column: names, threads and devices are small ints, so no sorting is needed."""

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.traces.timeline import Int64

Index = npt.NDArray[np.signedinteger]


def used(column: Index) -> list[int]:
    """Return the distinct values of a column of small non-negative ints, rising.

    >>> used(np.array([3, 1, 3]))
    [1, 3]
    """
    values: list[int] = np.flatnonzero(np.bincount(column)).tolist()
    return values


def distinct(column: Index) -> Int64:
    """Return the distinct values of any int column, rising.

    `np.unique` would do, and import numpy's masked arrays: a tenth of a short command's time.

    >>> distinct(np.array([5, -1, 5])).tolist()
    [-1, 5]
    """
    ordered = np.sort(column).astype(np.int64)
    first: Int64 = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return first


def grouped(column: Index) -> tuple[Int64, Int64]:
    """Return the distinct values of any int column, rising, and each row's index into them.

    >>> values, index = grouped(np.array([70, 5, 70]))
    >>> values.tolist(), index.tolist()
    ([5, 70], [1, 0, 1])
    """
    values = distinct(column)
    return values, np.searchsorted(values, column).astype(np.int64)


def summed(group: Index, values: npt.NDArray[np.generic], groups: int) -> Int64:
    """Sum integers by group, exactly up to 2**53.

    >>> summed(np.array([0, 1, 0]), np.array([5, 1, 2]), 2).tolist()
    [7, 1]
    """
    sums: Int64 = np.bincount(group, weights=values, minlength=groups).astype(np.int64)
    return sums
