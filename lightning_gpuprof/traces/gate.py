"""Checks a timeline's device events before anything is computed from them, whoever recorded them.

Work on one stream runs in the order in which it was launched, one after the other, and none of it
before its launch. Profilers at times write what contradicts that: durations of seconds, events at
time 0, times of another clock. An event that is too long ends where the next one of its stream
starts; one at an impossible time is left out; both are counted.
"""

from dataclasses import replace

import numpy as np

from lightning_gpuprof.arrays import Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import (
    CATEGORY_ID,
    MISSING,
    DeviceEvents,
    Timeline,
    of_category,
    select,
)

CLOCK_NS = 10_000_000
"""By so much the clocks of host and device may disagree, beyond what they do at the median."""
OVERLAP_NS = 1_000_000
"""A kernel may start before the one before it has ended (programmatic launch), not by so much;
kernels of a graph, which one call launches, may run side by side under one stream's number."""


def launch_rows(timeline: Timeline) -> Int32:
    """Return the host row of each device event's launching call, -1 where the trace has none."""
    runtime = np.flatnonzero(of_category(timeline.host, "cuda_runtime", "cuda_driver"))
    ids = timeline.host.correlation[runtime]
    runtime, ids = runtime[ids != MISSING], ids[ids != MISSING]
    order = np.argsort(ids, kind="stable")
    runtime, ids = runtime[order], ids[order]
    wanted = timeline.device.correlation
    call = np.full(len(wanted), -1, dtype=np.int32)
    if len(ids):
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        found = (ids[at] == wanted) & (wanted != MISSING)
        call[found] = runtime[at[found]]
    return call


def checked(timeline: Timeline) -> Timeline:
    """Return a timeline whose device events are possible, with what was done to the others."""
    call = launch_rows(timeline)
    wrong = _too_early(timeline, call)
    wrong[~wrong] = _too_late(timeline, select(timeline.device, ~wrong), call[~wrong])
    kept = select(timeline.device, ~wrong)
    end_ns = _possible_ends(kept, call[~wrong])
    cut, left_out = int((end_ns < kept.end_ns).sum()), int(wrong.sum())
    if not cut and not left_out:
        return timeline
    kept = replace(kept, dur_ns=end_ns - kept.start_ns)
    found = replace(timeline, device=kept, cut_count=cut, left_out_count=left_out)
    return _from_its_first(found)


def _too_early(timeline: Timeline, call: Int32) -> Mask:
    """Return which events have no time at all, or start before their launch."""
    host, device, known = timeline.host, timeline.device, call >= 0
    timed = (device.start_ns + timeline.origin_ns != 0) | (device.dur_ns != 0)
    if (known & timed).any():
        ahead = device.start_ns - host.start_ns[call]
        usual = np.sort(ahead[known & timed])
        timed &= ~known | (ahead >= min(0, int(usual[len(usual) // 2])) - CLOCK_NS)
    wrong: Mask = ~timed
    return wrong


def _too_late(timeline: Timeline, device: DeviceEvents, call: Int32) -> Mask:
    """Return which events start after events of their stream that were launched later."""
    host, late = timeline.host, np.zeros(len(device), dtype=np.bool_)
    for rows in _by_stream(device, call >= 0):
        called = host.start_ns[call[rows]]
        if (np.diff(called) >= 0).all():
            continue
        order = np.argsort(called, kind="stable")
        rows, called = rows[order], called[order]
        start = device.start_ns[rows]
        first = np.append(np.minimum.accumulate(start[::-1])[::-1], np.iinfo(np.int64).max)
        later = np.searchsorted(called, host.end_ns[call[rows]], side="right")
        late[rows] = start - CLOCK_NS > first[later]
    return late


def _possible_ends(device: DeviceEvents, call: Int32) -> Int64:
    """Return each event's end: where the next one starts, if it reaches over several of them."""
    end_ns = device.end_ns
    alone = np.ones(len(device), dtype=np.bool_)
    launched = call >= 0
    shared = np.bincount(call[launched]) > 1
    alone[launched] = ~shared[call[launched]]
    for rows in _by_stream(device, alone):
        start, end = device.start_ns[rows], end_ns[rows]
        over = np.flatnonzero(end[:-1] - start[1:] > OVERLAP_NS)
        over = over[np.searchsorted(start, end[over]) > over + 2]
        end_ns[rows[over]] = start[over + 1]
    return end_ns


def _by_stream(device: DeviceEvents, chosen: Mask) -> list[Int64]:
    """Return the chosen rows of each stream, in order of their starts."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((device.stream[rows], device.device[rows]))]
    changes = np.diff(device.stream[rows]) | np.diff(device.device[rows])
    return [part for part in np.split(rows, np.flatnonzero(changes) + 1) if len(part)]


def _from_its_first(timeline: Timeline) -> Timeline:
    """Begin a timeline's clock with its first event again, which may have been left out."""
    host, device = timeline.host, timeline.device
    calls = host.start_ns[host.category != CATEGORY_ID["python_function"]]
    first = min((int(at.min()) for at in (calls, device.start_ns) if len(at)), default=0)
    moved = {
        name: replace(table := getattr(timeline, name), start_ns=table.start_ns - first)
        for name in ("host", "device", "memory", "flows")
    }
    return replace(timeline, origin_ns=timeline.origin_ns + first, **moved)
