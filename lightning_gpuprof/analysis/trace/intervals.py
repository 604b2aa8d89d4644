"""Unions of time intervals, exact in integer nanoseconds."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.arrays import Int64


class Spans(Struct, frozen=True):
    """Disjoint, sorted intervals `[start, end)`."""

    start: Int64
    end: Int64

    @property
    def total(self) -> int:
        """Time that is covered."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)


def union(start: Int64, end: Int64) -> Spans:
    """Merge intervals that overlap or touch; empty ones vanish.

    >>> spans = union(np.array([5, 0, 1, 9]), np.array([7, 2, 5, 9]))
    >>> spans.start.tolist(), spans.end.tolist(), spans.total
    ([0], [7], 7)
    """
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return Spans(start, end)
    if (np.diff(start) < 0).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Spans(start[first], reach[last])


def complement(spans: Spans, start: int, end: int) -> Spans:
    """Return what of a window is not covered.

    >>> free = complement(union(np.array([0, 5]), np.array([2, 7])), 1, 9)
    >>> free.start.tolist(), free.end.tolist()
    ([2, 7], [5, 9])
    """
    begins = np.clip(np.append(start, spans.end), start, end).astype(np.int64)
    stops = np.clip(np.append(spans.start, end), start, end).astype(np.int64)
    keep = stops > begins
    return Spans(begins[keep], stops[keep])


def covered_until(spans: Spans, at: Int64) -> Int64:
    """Return how much time before each point is covered.

    >>> spans = union(np.array([0, 5]), np.array([2, 7]))
    >>> covered_until(spans, np.array([-1, 1, 4, 6, 9])).tolist()
    [0, 1, 2, 3, 4]
    """
    if not len(spans):
        return np.zeros(len(at), dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(spans.end - spans.start)))
    index = np.searchsorted(spans.start, at, side="right") - 1
    inside = np.minimum(at, spans.end[index]) - spans.start[index]
    result: Int64 = np.where(index < 0, 0, before[index] + inside)
    return result


def covered_within(spans: Spans, start: Int64, end: Int64) -> Int64:
    """Return how much of each window is covered.

    >>> spans = union(np.array([0, 5]), np.array([2, 7]))
    >>> covered_within(spans, np.array([1]), np.array([6])).tolist()
    [2]
    """
    inside: Int64 = covered_until(spans, end) - covered_until(spans, start)
    return inside
