"""What device events wait for: the event before on their stream, and events of other streams."""

from collections import defaultdict

import numpy as np

from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.traces.timeline import MISSING, Timeline

_WAIT = "Stream Wait Event"


def previous_on_stream(timeline: Timeline) -> list[int]:
    """Return, for each device event, the row before it on its stream; -1 for none."""
    device = timeline.device
    previous = np.full(len(device), -1, dtype=np.int64)
    order = np.lexsort((device.start_ns, device.stream, device.device))
    same = (np.diff(device.stream[order]) == 0) & (np.diff(device.device[order]) == 0)
    previous[order[1:][same]] = order[:-1][same]
    result: list[int] = previous.tolist()
    return result


def stream_waits(timeline: Timeline, launches: Launches) -> dict[int, list[int]]:
    """Return, by device row, the rows on other streams that it had to wait for.

    A `cudaStreamWaitEvent` holds back what is launched on its stream after it, until what was
    on the other stream when `cudaEventRecord` was called has run. Kineto records both, where
    synchronization events are switched on.
    """
    syncs = timeline.syncs
    waits = [index for index, name in enumerate(timeline.names) if name == _WAIT]
    rows = np.flatnonzero(np.isin(syncs.name, waits) & (syncs.wait_on_stream != MISSING))
    if not len(rows):
        return {}
    queues = _queues(timeline, launches)
    called = _call_times(timeline)
    found: dict[int, list[int]] = defaultdict(list)
    for row in rows.tolist():
        device, stream = int(syncs.device[row]), int(syncs.stream[row])
        record = called.get(int(syncs.wait_on_correlation[row]))
        wait = called.get(int(syncs.correlation[row]))
        if record is None or wait is None:
            continue
        held = _first_after(queues.get((device, stream)), wait)
        waited = _last_before(queues.get((device, int(syncs.wait_on_stream[row]))), record)
        if held >= 0 and waited >= 0:
            found[held].append(waited)
    return dict(found)


class _Queue:
    """What was launched on one stream, in the order of launching."""

    def __init__(self, launched: list[int], rows: list[int]) -> None:
        self.launched = np.array(launched, dtype=np.int64)
        self.rows = rows


def _queues(timeline: Timeline, launches: Launches) -> dict[tuple[int, int], _Queue]:
    device, host = timeline.device, timeline.host
    rows = np.flatnonzero(launches.call >= 0)
    launched = host.start_ns[launches.call[rows]]
    order = np.argsort(launched, kind="stable")
    parts: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row, time in zip(rows[order].tolist(), launched[order].tolist(), strict=True):
        times, members = parts[int(device.device[row]), int(device.stream[row])]
        times.append(time)
        members.append(row)
    return {key: _Queue(times, members) for key, (times, members) in parts.items()}


def _call_times(timeline: Timeline) -> dict[int, int]:
    host = timeline.host
    known = host.correlation != MISSING
    return dict(zip(host.correlation[known].tolist(), host.start_ns[known].tolist(), strict=True))


def _first_after(queue: _Queue | None, time: int) -> int:
    if queue is None:
        return -1
    index = int(np.searchsorted(queue.launched, time, side="right"))
    return queue.rows[index] if index < len(queue.rows) else -1


def _last_before(queue: _Queue | None, time: int) -> int:
    if queue is None:
        return -1
    index = int(np.searchsorted(queue.launched, time, side="left")) - 1
    return queue.rows[index] if index >= 0 else -1
