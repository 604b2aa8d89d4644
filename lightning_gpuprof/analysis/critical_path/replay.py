"""Divides a trace into work and dependencies, and replays it with parts shortened.

Replayed unchanged it lasts as long as it did, to the nanosecond. Host work is one chain over
all threads that launch work, in the order of the trace.

Between two waits the host only launches, so the work that it launches on a stream in that time, a
burst, ends at `max(host + from_host, before + from_before)`: `host` is when the host began to
launch it, `before` when the work before it on the stream ended. Both terms are sums and maxima over
single events and found for all bursts at once; only bursts are gone through one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lightning_gpuprof.analysis.critical_path.device_starts import (
    by_stream,
    launch_ends,
    previous_on_stream,
    stream_waits,
)
from lightning_gpuprof.analysis.critical_path.host_chain import HostChain
from lightning_gpuprof.analysis.trace.grouping import summed, used
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.trace.kernel_category import categorize
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline, of_category

_NEVER_NS = 2**62


@dataclass(frozen=True)
class Saving:
    """The length of a trace without one part of it.

    The part is `host` or `device` (all of it), `host/<activity>`, `device/<category>`,
    `launch_latency` (launch to start, where the device waited for it), `queue` (between device
    events that follow each other) or `sync` (the host never waits).
    """

    part: str
    part_ns: int
    span_ns: int
    saved_ns: int


@dataclass(frozen=True)
class WhatIf:
    """Savings by part, largest first.

    A part's share of the critical path is only the most that could be saved: once it is shorter,
    something else holds the trace up. The replay counts that in.
    """

    span_ns: int
    savings: tuple[Saving, ...]

    def of(self, part: str) -> Saving | None:
        """Return a part's saving; None where the trace holds none of it."""
        return next((saving for saving in self.savings if saving.part == part), None)


def what_if(trace: LinkedTrace) -> WhatIf:
    """Replay a trace without each of its parts in turn."""
    replay = Replay(trace)
    host, device = replay.host_ns, replay.device_ns
    cases = {
        "host": (sum(host.values()), Left(activity=dict.fromkeys(host, 0.0))),
        "device": (sum(device.values()), Left(category=dict.fromkeys(device, 0.0))),
        "launch_latency": (replay.latency_ns, Left(launch_latency=0.0)),
        "queue": (replay.queue_ns, Left(queue=0.0)),
        "sync": (replay.waited_ns, Left(waits=False)),
        **{f"host/{name}": (ns, Left(activity={name: 0.0})) for name, ns in host.items()},
        **{f"device/{name}": (ns, Left(category={name: 0.0})) for name, ns in device.items()},
    }
    savings = []
    for part, (part_ns, left) in cases.items():
        if part_ns:
            span = replay.run(left)
            savings.append(Saving(part, part_ns, span, replay.span_ns - span))
    savings.sort(key=lambda saving: (-saving.saved_ns, saving.part))
    return WhatIf(replay.span_ns, tuple(savings))


@dataclass(frozen=True)
class Left:
    """How much of each part is left, 1 for all of it.

    Args:
        activity: Of host work, by activity.
        category: Of device work, by category of kernel, or `gpu_memcpy`, `gpu_memset`.
        launch_latency: Of the time from a launch to the start it was waited for.
        queue: Of the time from the end of work to the start of the event that waited for it.
        waits: Whether the host waits for the device where it did.
    """

    activity: Mapping[str, float] = field(default_factory=dict)
    category: Mapping[str, float] = field(default_factory=dict)
    launch_latency: float = 1.0
    queue: float = 1.0
    waits: bool = True


class Replay:
    """A trace as work and dependencies; without device events only host work can be shortened."""

    def __init__(self, trace: LinkedTrace) -> None:
        timeline, device = trace.timeline, trace.timeline.device
        starts = [int(table.start_ns[0]) for table in (timeline.host, device) if len(table)]
        self._begin = min(starts, default=0)
        category, self._categories = _categories(timeline)
        launched = launch_ends(trace)
        self._chain = chain = HostChain(trace, launched, begin=self._begin)
        start, end = device.start_ns, device.end_ns
        # Only work that was launched before can hold an event back.
        rank = np.empty(len(device), dtype=np.int64)
        rank[np.argsort(launched, kind="stable")] = np.arange(len(device))
        previous, rows = previous_on_stream(timeline), np.arange(len(device))
        linked = (previous >= 0) & (end[previous] <= start) & (rank[previous] < rank)
        waited = stream_waits(trace)
        row, other = waited.row, waited.waited_for
        fits = (end[other] <= start[row]) & (rank[other] < rank[row])
        row, other = row[fits], other[fits]
        after_work = np.where(linked, start - end[previous], _NEVER_NS)
        np.minimum.at(after_work, row, start[row] - end[other])
        latency, gap = self._delays(start, launched, after_work)
        epoch = np.where(chain.place >= 0, np.searchsorted(chain.returns, chain.place) + 1, 0)
        self._find_bursts(by_stream(device), rows, linked, epoch, rank, (row, other))
        order = self._order
        # Without launch and known predecessor, an event begins when it did.
        alone = (launched < 0) & (after_work == _NEVER_NS)
        self._fixed = np.where(alone, start, -np.inf)[order]
        self._place, self._row_epoch = chain.place[order], epoch[order]
        self._of_category = category[order]
        self._latency, self._gap, self._dur = latency[order], gap[order], device.dur_ns[order]
        self.waited_ns = chain.waited_ns
        self.host_ns = {n: ns for n, ns in zip(ACTIVITIES, chain.work_ns, strict=True) if ns}
        device_ns = summed(category, device.dur_ns, len(self._categories)).tolist()
        self.device_ns = dict(zip(self._categories, device_ns, strict=True))
        self.span_ns = self.run(Left())

    def run(self, left: Left) -> int:
        """Return how long the trace lasts with parts shortened."""
        chain = self._chain
        share = np.array([left.activity.get(name, 1.0) for name in ACTIVITIES])
        # The host's time at each place if it never waited, in all and since its last wait.
        at = np.cumsum(chain.work(share))
        base = np.concatenate(([0.0, 0.0], at[chain.returns]))
        of_category = np.array([left.category.get(name, 1.0) for name in self._categories])
        from_host: list[float] = []
        from_before: list[float] = []
        if len(self._order):
            ready = self._latency * left.launch_latency + at[self._place] - base[self._row_epoch]
            ready = np.where(self._place >= 0, ready, self._fixed)
            took = self._dur * of_category[self._of_category]
            reached = np.cumsum(self._gap * left.queue + took)
            latest = np.maximum.reduceat(ready + took - reached, self._first)
            reached = reached[np.append(self._first[1:], len(reached)) - 1]
            from_host = (latest + reached)[self._by_rank].tolist()
            from_before = np.diff(reached, prepend=0.0)[self._by_rank].tolist()
        worked = np.diff(np.append(base[1:], at[-1])).tolist()
        ends = self._go_through(from_host, from_before, worked, waits=left.waits)
        return round(ends - self._begin)

    def _find_bursts(
        self,
        order: Int32,
        rows: Int64,
        linked: Mask,
        epoch: Int64,
        rank: Int64,
        pairs: tuple[Int64, Int64],
    ) -> None:
        """Divide the rows, stream by stream, into bursts: no event depends on one inside another.

        Bursts are numbered in the order of launching.
        """
        begins, ends = ~linked, np.zeros(len(rows), dtype=np.bool_)
        begins[pairs[0]] = True
        ends[pairs[1]] = ends[self._chain.device_row] = True
        new = begins[order]
        new[1:] |= ends[order[:-1]] | (epoch[order[1:]] != epoch[order[:-1]])
        first = np.flatnonzero(new)
        self._order, self._first = order, first
        self._by_rank = np.argsort(rank[order[first]])
        number = np.empty(len(first), dtype=np.int64)
        number[self._by_rank] = np.arange(len(first))
        before = np.where(linked[order[first]], np.append(-1, number)[: len(first)], -1)
        self._burst_before: list[int] = before[self._by_rank].tolist()
        burst = np.empty(len(rows), dtype=np.int64)
        burst[order] = number[np.cumsum(new) - 1]
        self._waited_for: list[int] = burst[self._chain.device_row].tolist()
        self._other_streams: dict[int, list[int]] = {}
        for row, other in zip(burst[pairs[0]].tolist(), burst[pairs[1]].tolist(), strict=True):
            self._other_streams.setdefault(row, []).append(other)
        epochs = np.arange(len(self._chain.returns) + 2)
        of_burst = epoch[order[first[self._by_rank]]]
        self._until: list[int] = np.searchsorted(of_burst, epochs, side="right").tolist()

    def _go_through(
        self,
        from_host: list[float],
        from_before: list[float],
        worked: list[float],
        *,
        waits: bool,
    ) -> float:
        """Put bursts and waits together, in order; return when the last of it ends."""
        before, others = self._burst_before, self._other_streams
        ends = [-np.inf] * (len(before) + 1)  # one more, found by index -1
        after: list[float] = [*self._chain.after_ns.tolist(), 0]
        returned = [*self._waited_for, -1]
        host, first = 0.0, 0
        # Work without a launch in the trace is in the first epoch, before the host's.
        for epoch, last in enumerate(self._until):
            if epoch == 1:
                host = float(self._begin)
            for burst in range(first, last):
                ready = ends[before[burst]]
                if burst in others:
                    ready = max(ready, *(ends[other] for other in others[burst]))
                ends[burst] = max(host + from_host[burst], ready + from_before[burst])
            first = last
            if epoch:
                host += worked[epoch - 1]
                if waits:
                    host = max(host, ends[returned[epoch - 1]] + after[epoch - 1])
        return max(host, *ends)

    def _delays(self, start: Int64, launched: Int64, after_work: Int64) -> tuple[Int64, Int64]:
        """Return the delays after an event's launch and after the work before it.

        The later of launch and work explains the start. The other one gets the usual delay of
        its kind, or less where there was less time, and so changes nothing by itself.
        """
        after_launch = np.where(launched >= 0, start - launched, _NEVER_NS)
        by_launch = (launched >= 0) & (after_launch <= after_work)
        by_work = ~by_launch & (after_work != _NEVER_NS)
        latencies, gaps = after_launch[by_launch], after_work[by_work]
        self.latency_ns, self.queue_ns = int(latencies.sum()), int(gaps.sum())
        latency = np.where(by_launch, after_launch, np.minimum(after_launch, _usual(latencies)))
        gap = np.where(by_work, after_work, np.minimum(after_work, _usual(gaps)))
        return latency, gap


def _usual(delays: Int64) -> int:
    some = delays[delays > 0]
    return int(np.median(some)) if len(some) else 0


def _categories(timeline: Timeline) -> tuple[Int64, list[str]]:
    """Return each device event's category (of the kernel, or copy or fill) and their names."""
    device = timeline.device
    is_kernel = of_category(device, "kernel")
    known: dict[str, int] = {}
    by_name = np.zeros(len(timeline.names), dtype=np.int64)
    for name in used(device.name[is_kernel]):
        by_name[name] = known.setdefault(categorize(timeline.names[name]), len(known))
    by_category = np.zeros(len(CATEGORIES), dtype=np.int64)
    for category in used(device.category[~is_kernel]):
        by_category[category] = known.setdefault(CATEGORIES[category], len(known))
    found: Int64 = np.where(is_kernel, by_name[device.name], by_category[device.category])
    return found, list(known)
