"""Sums and look-ups by an index column. Names, threads and devices are small ints."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import Timeline

_PIECE = 1 << 15
Index = npt.NDArray[np.signedinteger]


def named(timeline: Timeline, test: Callable[[str], bool]) -> Mask:
    """Return a mask of the host events whose name passes a test."""
    return matching(timeline, timeline.host.name, test)


def matching(timeline: Timeline, key: Index, test: Callable[[str], bool]) -> Mask:
    """Return a mask of the rows whose name passes a test; only names in use are tested."""
    passed = np.zeros(len(timeline.names), dtype=np.bool_)
    for name in used(key):
        passed[name] = test(timeline.names[name])
    mask: Mask = passed[key]
    return mask


def used(column: Index) -> list[int]:
    """Return the distinct values of a column of small non-negative ints, rising."""
    values: list[int] = np.flatnonzero(np.bincount(column)).tolist()
    return values


def distinct(column: Index) -> Index:
    """Return the distinct values of any int column, rising.

    `np.unique` does the same, but imports numpy's masked arrays: a tenth of a short command's time.
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
    count = np.zeros(groups, dtype=np.int64)
    for piece in _pieces(len(group), groups):
        count += np.bincount(group[piece], minlength=groups)
    return count


def summed(group: Index, values: npt.NDArray[np.generic], groups: int) -> Int64:
    """Sum integers by group; exactly, if the sums of `_PIECE` of them are below 2**53."""
    total = np.zeros(groups, dtype=np.int64)
    for piece in _pieces(len(group), groups):
        sums = np.bincount(group[piece], weights=values[piece], minlength=groups)
        total += sums.astype(np.int64)
    return total


def _pieces(rows: int, groups: int) -> Iterator[slice]:
    """Yield parts of a column, for numpy copies what it counts or sums to 64 bits."""
    size = max(_PIECE, groups)
    return (slice(low, low + size) for low in range(0, rows, size))


class Sums(Struct, frozen=True):
    """The durations of all events with one name; `key` is its index among the trace's names."""

    name: str
    key: int
    count: int
    total_ns: int
    min_ns: int
    max_ns: int

    @property
    def mean_ns(self) -> float:
        """Total over count."""
        return self.total_ns / self.count


def sums_by_name(names: Sequence[str], key: Index, dur_ns: Int64) -> list[Sums]:
    """Sum up durations by name, longest total first."""
    count, total = counted(key, len(names)), summed(key, dur_ns, len(names))
    low, high = np.full(len(names), np.iinfo(np.int64).max), np.zeros(len(names), dtype=np.int64)
    np.minimum.at(low, key, dur_ns)
    np.maximum.at(high, key, dur_ns)
    rows = [
        Sums(names[i], i, int(count[i]), int(total[i]), int(low[i]), int(high[i]))
        for i in np.flatnonzero(count).tolist()
    ]
    return sorted(rows, key=lambda row: (-row.total_ns, row.name))
