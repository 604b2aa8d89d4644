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


def summed(group: Index, values: npt.NDArray[np.generic], groups: int) -> Int64:
    """Sum integers by group, exactly up to 2**53.

    >>> summed(np.array([0, 1, 0]), np.array([5, 1, 2]), 2).tolist()
    [7, 1]
    """
    sums: Int64 = np.bincount(group, weights=values, minlength=groups).astype(np.int64)
    return sums
