"""Sums and look-ups by an index column, some rows at a time.

Names, threads and devices are small ints, so no sorting is needed. numpy makes 64 bits of every
index it is given, and of every value it sums: of a large table's column all at once, that is more
memory than the column itself.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import Timeline, fits_int32

Index = npt.NDArray[np.signedinteger]
_Value = TypeVar("_Value", bound=np.generic)
_BLOCK = 1 << 16


def blocks(rows: int) -> Iterator[slice]:
    """Yield a table's rows some at a time: what is made of all at once is as large as the table.

    >>> list(blocks(70_000))
    [slice(0, 65536, None), slice(65536, 70000, None)]
    """
    for low in range(0, rows, _BLOCK):
        yield slice(low, min(low + _BLOCK, rows))


def looked_up(table: npt.NDArray[_Value], index: Index) -> npt.NDArray[_Value]:
    """Return `table[index]`.

    >>> looked_up(np.array([True, False]), np.array([1, 0, -1])).tolist()
    [False, True, False]
    """
    found = np.empty(len(index), dtype=table.dtype)
    for block in blocks(len(index)):
        found[block] = table[index[block]]
    return found


def named(timeline: Timeline, test: Callable[[str], bool]) -> Mask:
    """Return which host events have a name that passes a test."""
    return looked_up(passing(timeline, test), timeline.host.name)


def passing(timeline: Timeline, test: Callable[[str], bool]) -> Mask:
    """Return which of a trace's names pass a test; one that does not, where it has none."""
    return np.array([test(name) for name in timeline.names] or [False])


def narrowed(values: Index) -> Index:
    """Return values in 32 bits where they fit.

    >>> narrowed(np.array([1, -2])).dtype, narrowed(np.array([2**40])).dtype
    (dtype('int32'), dtype('int64'))
    """
    return values.astype(np.int32) if fits_int32(values) else values


def used(column: Index) -> list[int]:
    """Return the distinct values of a column of small non-negative ints, rising.

    >>> used(np.array([3, 1, 3]))
    [1, 3]
    """
    values: set[int] = set()
    for block in blocks(len(column)):
        values.update(np.flatnonzero(np.bincount(column[block])).tolist())
    return sorted(values)


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
    counts = np.zeros(groups, dtype=np.int64)
    for block in blocks(len(group)):
        counts += np.bincount(group[block], minlength=groups)
    return counts


def summed(group: Index, values: npt.NDArray[np.generic], groups: int) -> Int64:
    """Sum integers by group; exactly, unless 65,536 of them exceed 2**53.

    >>> summed(np.array([0, 1, 0]), np.array([5, 1, 2]), 2).tolist()
    [7, 1]
    """
    sums = np.zeros(groups, dtype=np.int64)
    for block in blocks(len(group)):
        some = np.bincount(group[block], weights=values[block], minlength=groups)
        sums += some.astype(np.int64)
    return sums


def lowest(group: Index, values: Index, groups: int) -> Int64:
    """Return the lowest value of each group, the largest of 64 bits where it has none.

    >>> lowest(np.array([0, 1, 0]), np.array([5, 1, 2]), 2).tolist()
    [2, 1]
    """
    low = np.full(groups, np.iinfo(np.int64).max)
    for block in blocks(len(group)):
        np.minimum.at(low, group[block], _wide(values[block]))
    return low


def highest(group: Index, values: Index, groups: int) -> Int64:
    """Return the highest value of each group, 0 where it has none above.

    >>> highest(np.array([0, 1, 0]), np.array([5, 1, 2]), 3).tolist()
    [5, 1, 0]
    """
    high = np.zeros(groups, dtype=np.int64)
    for block in blocks(len(group)):
        np.maximum.at(high, group[block], _wide(values[block]))
    return high


def _wide(values: Index) -> Int64:
    wide: Int64 = values.astype(np.int64)  # of one type `ufunc.at` is far faster
    return wide
