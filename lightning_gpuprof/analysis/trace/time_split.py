"""How a device's time divides into compute, exposed communication, exposed copies and idle."""

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from lightning_gpuprof.analysis.trace.grouping import distinct, matching
from lightning_gpuprof.analysis.trace.kernel_category import categorize
from lightning_gpuprof.analysis.trace_tables import TimeSplit
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline, select


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


class DeviceSpans(Struct, frozen=True):
    """When a device did what, unions over its streams; `windows` are the parts to be looked at."""

    device: int
    compute: Spans
    comm: Spans
    copy: Spans
    compute_or_comm: Spans
    busy: Spans
    windows: Spans


def device_spans(timeline: Timeline) -> list[DeviceSpans]:
    """Return each device's spans, by device number."""
    devices = distinct(timeline.device.device).tolist()
    return [_spans(timeline, number, alone=len(devices) == 1) for number in devices]


def _spans(timeline: Timeline, device: int, *, alone: bool) -> DeviceSpans:
    events = timeline.device
    if not alone:
        events = select(events, events.device == device)
    start, end = events.start_ns, events.end_ns
    comm = matching(timeline, events.name, lambda name: categorize(name) == "communication")
    comm &= events.category == CATEGORY_ID["kernel"]
    copy = events.category == CATEGORY_ID["gpu_memcpy"]
    compute = ~(comm | copy)
    not_copy = ~copy
    busy = union(start, end)
    return DeviceSpans(
        device=device,
        compute=union(start[compute], end[compute]),
        comm=union(start[comm], end[comm]),
        copy=union(start[copy], end[copy]),
        compute_or_comm=union(start[not_copy], end[not_copy]),
        busy=busy,
        windows=Spans(start[:1], end.max(keepdims=True)),
    )


def cut(spans: DeviceSpans, *windows: tuple[int, int]) -> DeviceSpans:
    """Return the same spans with windows, of which `split_time` then splits the sum."""
    borders = np.array(windows, dtype=np.int64)
    return replace(spans, windows=Spans(borders[:, 0], borders[:, 1]))


def split_time(spans: DeviceSpans) -> TimeSplit:
    """Split a device's windows; at first its whole span, from its first event to the last's end."""
    parts = split_windows(spans, spans.windows.start, spans.windows.end)
    return TimeSplit(*map(sum, zip(*map(astuple, parts), strict=True)))


def split_windows(spans: DeviceSpans, start: Int64, end: Int64) -> list[TimeSplit]:
    """Split windows of time, such as steps; events are cut at a window's borders."""
    parts = (spans.compute, spans.comm, spans.copy, spans.compute_or_comm, spans.busy)
    compute, comm, copy, either, busy = (
        covered_until(part, end) - covered_until(part, start) for part in parts
    )
    span = end - start
    split = (span, busy, span - busy, compute, comm, copy, either - compute, busy - either)
    return [TimeSplit(*map(int, row)) for row in zip(*split, strict=True)]
