"""Removes impossible device events from a timeline before anything is computed from it.

The work of a stream runs in the order in which it was launched, without overlap, and never before
its launch. Some recordings contradict that: durations of seconds, events at time 0, times of
another clock. An event that is too long is cut where the next event of its stream starts; an event
at an impossible time is left out. Both are counted.
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
"""How far the clocks of host and device may disagree, beyond their median difference."""
OVERLAP_NS = 1_000_000
"""How far a kernel may overlap the next kernel of its stream (programmatic launch).

Kernels of a graph, which one call launches, may overlap more, under the same stream's number.
"""


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
        launched = (ids[at] == wanted) & (wanted != MISSING)
        call[launched] = runtime[at[launched]]
    return call


def checked(timeline: Timeline) -> Timeline:
    """Return a timeline without impossible device events, which counts what was changed."""
    call = launch_rows(timeline)
    wrong = _too_early(timeline, call)
    wrong[~wrong] = _too_late(timeline, select(timeline.device, ~wrong), call[~wrong])
    device = select(timeline.device, ~wrong)
    end_ns = _possible_ends(device, call[~wrong])
    cut, left_out = int((end_ns < device.end_ns).sum()), int(wrong.sum())
    if not cut and not left_out:
        return timeline
    device = replace(device, dur_ns=end_ns - device.start_ns)
    return _rebased(replace(timeline, device=device, cut_count=cut, left_out_count=left_out))


def _too_early(timeline: Timeline, call: Int32) -> Mask:
    """Return a mask of the events that have no time, or start before their launch."""
    host, device, known = timeline.host, timeline.device, call >= 0
    timed = (device.start_ns + timeline.origin_ns != 0) | (device.dur_ns != 0)
    if (known & timed).any():
        ahead = device.start_ns - host.start_ns[call]
        usual = np.sort(ahead[known & timed])
        timed &= ~known | (ahead >= min(0, int(usual[len(usual) // 2])) - CLOCK_NS)
    wrong: Mask = ~timed
    return wrong


def _too_late(timeline: Timeline, device: DeviceEvents, call: Int32) -> Mask:
    """Return a mask of the events that start after events launched later on their stream."""
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
    """Return each event's end: where the next event starts, if it overlaps several later ones."""
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


def _rebased(timeline: Timeline) -> Timeline:
    """Return a timeline whose times start at its first event, since the former may be left out."""
    host, device = timeline.host, timeline.device
    calls = host.start_ns[host.category != CATEGORY_ID["python_function"]]
    first = min((int(at.min()) for at in (calls, device.start_ns) if len(at)), default=0)
    memory, flows = timeline.memory, timeline.flows
    return replace(
        timeline,
        origin_ns=timeline.origin_ns + first,
        host=replace(host, start_ns=host.start_ns - first),
        device=replace(device, start_ns=device.start_ns - first),
        memory=replace(memory, start_ns=memory.start_ns - first),
        flows=replace(flows, start_ns=flows.start_ns - first),
    )
