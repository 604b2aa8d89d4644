"""The visible part of a Layout in a range of time at a number of pixels."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightning_gpuprof.analysis.timeline.layout import KINDS, Layout
from lightning_gpuprof.arrays import Int64, Mask

MAX_BLOCKS = 30_000
"""Some 700 kB before compression, and as much as a browser draws in a frame without effort."""


@dataclass(frozen=True)
class Cut:
    """Blocks by lane, then start: single events, or neighbours too short to tell apart."""

    lane: Int64
    start_ns: Int64
    dur_ns: Int64
    count: Int64
    event: Int64
    name: Int64
    kind: Int64
    matches: Int64
    """1 where a search matches an event of the block; 1 everywhere without a search."""


class LayoutCutter:
    """Cuts a layout to visible ranges; what all cuts need is computed once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @cached_property
    def _reach_ns(self) -> Int64:
        """Latest end in the lane up to each event: rises, where the ends alone may not."""
        layout = self.layout
        reach = layout.start_ns + layout.dur_ns
        for first, last in zip(layout.lane_first[:-1], layout.lane_first[1:], strict=True):
            np.maximum.accumulate(reach[first:last], out=reach[first:last])
        return reach

    def cut(
        self,
        lanes: Iterable[int],
        start: int,
        end: int,
        columns: int,
        *,
        matches: Mask | None = None,
    ) -> Cut:
        """Return what the lanes show between two times on so many columns of pixels.

        Events shorter than a column are merged; columns are halved until there are at most
        `MAX_BLOCKS` blocks. `matches` masks the events that match a search; None without a search.
        """
        lanes = list(lanes)
        while True:
            parts = [self._lane(lane, start, end, columns, matches) for lane in lanes]
            if sum(len(part[0]) for part in parts) <= MAX_BLOCKS or columns <= 1:
                break
            columns //= 2
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else []
        if not joined:
            joined = [np.zeros(0, dtype=np.int64)] * 7
        lane = np.repeat(lanes, [len(part[0]) for part in parts]).astype(np.int64)
        return Cut(lane, *joined)

    def _lane(
        self, lane: int, start: int, end: int, columns: int, matches: Mask | None
    ) -> tuple[Int64, ...]:
        layout = self.layout
        first, last = layout.lane_first[lane : lane + 2].tolist()
        low = first + int(np.searchsorted(self._reach_ns[first:last], start, side="right"))
        high = first + int(np.searchsorted(layout.start_ns[first:last], end, side="left"))
        if high <= low:
            return (np.zeros(0, dtype=np.int64),) * 7
        begun, dur = layout.start_ns[low:high], layout.dur_ns[low:high]
        heads = _heads(begun - start, dur, max(1, end - start), columns)
        count = np.diff(heads, append=high - low)
        ends = np.maximum.reduceat(begun + dur, heads)
        # Duration and kind in one number, so that the longest event's kind comes out of a maximum.
        kind = np.maximum.reduceat(dur * len(KINDS) + layout.kind[low:high], heads) % len(KINDS)
        name = np.where(count == 1, layout.name[low:high][heads], -1)
        matched = np.ones(len(heads), dtype=np.int64)
        if matches is not None:
            matched = np.maximum.reduceat(matches[low:high].astype(np.int64), heads)
        return begun[heads], ends - begun[heads], count, heads + low, name, kind, matched


def _heads(offset: Int64, dur: Int64, span: int, columns: int) -> Int64:
    """Return where blocks begin: long events stand alone, short ones share a pixel's block."""
    small = dur * columns < span
    pixel = offset // max(1, span // columns)
    joins = small[1:] & small[:-1] & (pixel[1:] == pixel[:-1])
    heads: Int64 = np.concatenate(([0], np.flatnonzero(~joins) + 1))
    return heads
