"""Takes a trace apart into work and dependencies, and puts it together again with parts shortened.

Put together unchanged it lasts as long as it did, to the nanosecond. Host work is replayed as
one chain over all threads that launch work, in the order of the trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.analysis.blocking import Wait, waits
from lightning_gpuprof.analysis.device_waits import previous_on_stream, stream_waits
from lightning_gpuprof.analysis.host_activity import ACTIVITIES, activities, activity_within
from lightning_gpuprof.analysis.intervals import Spans
from lightning_gpuprof.analysis.kernel_category import categorize
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline

_NEVER = -1


@dataclass(frozen=True)
class Left:
    """How much of each part is left, 1 for all of it.

    Args:
        activity: Of host work, by activity.
        category: Of device work, by category of kernel, or `gpu_memcpy`, `gpu_memset`.
        launch_latency: Of the time from a launch to the start it was waited for.
        queue: Of the time from the end of work to the start of what waited for it.
        waits: Whether the host waits for the device where it did.
    """

    activity: Mapping[str, float] = field(default_factory=dict)
    category: Mapping[str, float] = field(default_factory=dict)
    launch_latency: float = 1.0
    queue: float = 1.0
    waits: bool = True


class _Anchor(NamedTuple):
    """A moment of the host's chain: a launch, or a return from a wait."""

    time: int
    is_return: bool
    device_row: int
    worked_until: int
    """When host work before it ended: its own time, or when the wait began."""
    thread: int


class Replay:
    """A trace taken apart.

    Args:
        timeline: The trace; without device events only host work can be shortened.
        nesting: Of its host events.
        launches: Joined to its device events.
    """

    def __init__(self, timeline: Timeline, nesting: Nesting, launches: Launches) -> None:
        host, device = timeline.host, timeline.device
        tables = [table for table in (host, device) if len(table)]
        self._begin = min((int(table.start_ns[0]) for table in tables), default=0)
        self._start: list[int] = device.start_ns.tolist()
        self._end: list[int] = device.end_ns.tolist()
        self._category = _categories(timeline)
        host_end = nesting.end_ns.tolist()
        self._launched = [
            # A launch cannot have ended after its kernel began, whatever the clocks say.
            min(host_end[call], start) if call >= 0 else _NEVER
            for call, start in zip(launches.call.tolist(), self._start, strict=True)
        ]
        # In order of launch: only work that was launched before can hold an event back.
        self._order = sorted(range(len(device)), key=lambda row: (self._launched[row], row))
        self._after = self._dependencies(timeline, launches)
        self._latency, self._gap = self._delays()
        blocked = waits(timeline, nesting, launches)
        self._anchors = self._chain(timeline, launches, blocked)
        self._returns = {
            (wait.end_ns, wait.device_row): wait.end_ns - self._end[wait.device_row]
            for wait in blocked
        }
        finish = int(nesting.end_ns.max()) if len(host) else self._begin
        self._work = self._host_work(timeline, nesting, finish)
        self.span_ns = self.run(Left())

    @property
    def part_ns(self) -> dict[str, dict[str, int]]:
        """How much the trace holds of each part: host work, device work and delays, by name."""
        host = self._work.sum(axis=1).astype(np.int64).tolist()
        device: dict[str, int] = {}
        for category, start, end in zip(self._category, self._start, self._end, strict=True):
            device[category] = device.get(category, 0) + end - start
        waited = sum(a.time - a.worked_until for a in self._anchors if a.is_return)
        delays = {"launch_latency": self._latency_ns, "queue": self._queue_ns, "sync": waited}
        return {
            "host": {name: ns for name, ns in zip(ACTIVITIES, host, strict=True) if ns},
            "device": device,
            "delay": delays,
        }

    def run(self, left: Left) -> int:
        """Return how long the trace lasts with parts shortened."""
        share = np.array([left.activity.get(name, 1.0) for name in ACTIVITIES])
        work: list[float] = (share @ self._work).tolist()
        of_row = [left.category.get(category, 1.0) for category in self._category]
        end = [0.0] * len(self._start)
        host = last = float(self._begin)
        for row in self._order:
            if self._launched[row] == _NEVER:
                end[row] = self._finish(row, None, end, of_row[row], left)
                last = max(last, end[row])
        for anchor, spent in zip(self._anchors, work, strict=False):
            host += spent
            row = anchor.device_row
            if not anchor.is_return:
                end[row] = self._finish(row, host, end, of_row[row], left)
                last = max(last, end[row])
            elif left.waits:
                host = max(host, end[row] + self._returns[anchor.time, row])
        return round(max(host + work[-1], last) - self._begin)

    def _finish(
        self, row: int, launched: float | None, end: list[float], share: float, left: Left
    ) -> float:
        ready = [end[c] + self._gap[row] * left.queue for c in self._after[row]]
        if launched is not None:
            ready.append(launched + self._latency[row] * left.launch_latency)
        start = max(ready, default=float(self._start[row]))
        return start + (self._end[row] - self._start[row]) * share

    def _dependencies(self, timeline: Timeline, launches: Launches) -> list[list[int]]:
        """Return, for each device event, those that had to end before it could begin."""
        place = {row: index for index, row in enumerate(self._order)}
        previous, told = previous_on_stream(timeline), stream_waits(timeline, launches)
        return [
            [
                other
                for other in (previous[row], *told.get(row, ()))
                if other >= 0 and self._end[other] <= start and place[other] < place[row]
            ]
            for row, start in enumerate(self._start)
        ]

    def _delays(self) -> tuple[list[int], list[int]]:
        """Return the delays after an event's launch and after the work before it.

        The later of launch and work explains the start. The other one gets the usual delay of
        its kind, or less where there was less time, and so changes nothing by itself.
        """
        after_launch = [
            start - launched if launched != _NEVER else None
            for start, launched in zip(self._start, self._launched, strict=True)
        ]
        after_work = [
            min((start - self._end[other] for other in others), default=None)
            for start, others in zip(self._start, self._after, strict=True)
        ]
        by_launch = [
            a is not None and (b is None or a <= b)
            for a, b in zip(after_launch, after_work, strict=True)
        ]
        latencies = [a for a, yes in zip(after_launch, by_launch, strict=True) if yes and a]
        gaps = [b for b, yes in zip(after_work, by_launch, strict=True) if not yes and b]
        self._latency_ns, self._queue_ns = sum(latencies), sum(gaps)
        usual_latency = int(np.median(latencies)) if latencies else 0
        usual_gap = int(np.median(gaps)) if gaps else 0
        return (
            [
                a or 0 if yes else min(usual_latency, a or 0)
                for a, yes in zip(after_launch, by_launch, strict=True)
            ],
            [
                b or 0 if not yes else min(usual_gap, b or 0)
                for b, yes in zip(after_work, by_launch, strict=True)
            ],
        )

    def _chain(self, timeline: Timeline, launches: Launches, blocked: list[Wait]) -> list[_Anchor]:
        thread = timeline.host.thread
        anchors = [
            _Anchor(time, False, row, time, int(thread[launches.call[row]]))
            for row in self._order
            if (time := self._launched[row]) != _NEVER
        ]
        anchors += [
            _Anchor(wait.end_ns, True, wait.device_row, wait.start_ns, int(thread[wait.row]))
            for wait in blocked
        ]
        anchors.sort()
        reached, chain = self._begin, []
        for anchor in anchors:
            begun = min(max(anchor.worked_until, reached), anchor.time)
            chain.append(anchor._replace(worked_until=begun))
            reached = anchor.time
        return chain

    def _host_work(
        self, timeline: Timeline, nesting: Nesting, finish: int
    ) -> npt.NDArray[np.float64]:
        """Return the work before each anchor, and after the last, by activity (rows)."""
        start = np.array([self._begin, *(anchor.time for anchor in self._anchors)])
        end = np.array([*(anchor.worked_until for anchor in self._anchors), 0])
        end[-1] = max(finish, int(start[-1]))
        threads = [anchor.thread for anchor in self._anchors]
        thread = np.array([*threads, threads[-1] if threads else 0])
        own = activities(timeline, nesting)
        work = np.zeros((len(ACTIVITIES), len(start)), dtype=np.float64)
        if not len(timeline.host):
            return work
        for one in np.unique(thread).tolist():
            mine = thread == one
            windows = Spans(start[mine], end[mine])
            work[:, mine] = activity_within(timeline, nesting, own, one, windows)
        return work


def _categories(timeline: Timeline) -> list[str]:
    """Return each device event's category: of the kernel, or copy or fill."""
    device = timeline.device
    by_name: dict[int, str] = {}
    found = []
    for name, category in zip(device.name.tolist(), device.category.tolist(), strict=True):
        if CATEGORIES[category] != "kernel":
            found.append(CATEGORIES[category])
            continue
        if name not in by_name:
            by_name[name] = categorize(timeline.names[name])
        found.append(by_name[name])
    return found
