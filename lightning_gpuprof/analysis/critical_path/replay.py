"""Takes a trace apart into work and dependencies, and puts it together again with parts shortened.

Put together unchanged it lasts as long as it did, to the nanosecond. Host work is replayed as
one chain over all threads that launch work, in the order of the trace.

Between two waits the host only launches, so what it launches on a stream in that time ends at
`max(host + a, before + b)`: `host` is when the host began it, `before` when the work before it on
the stream ended, and `a` and `b` are sums and maxima over single events. Those are taken for all
such bursts at once; only the bursts are gone through one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lightning_gpuprof.analysis.critical_path.bursts import Bursts
from lightning_gpuprof.analysis.critical_path.device_starts import launch_ends
from lightning_gpuprof.analysis.critical_path.device_waits import previous_on_stream, stream_waits
from lightning_gpuprof.analysis.critical_path.host_chain import HostChain
from lightning_gpuprof.analysis.trace.grouping import (
    Index,
    blocks,
    looked_up,
    narrowed,
    summed,
    used,
)
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.trace.kernel_category import categorize
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Floats, Int8, Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline, of_category

_NEVER_NS = 2**62


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


class Replay:
    """A trace taken apart.

    Args:
        trace: The trace; without device events only host work can be shortened.

    Attributes:
        latency: By device row: how long after its launch it could begin.
        gap: By device row: how long after the work that it waited for.
        span_ns: How long the trace lasts.
    """

    def __init__(self, trace: LinkedTrace) -> None:
        timeline = trace.timeline
        host, device = timeline.host, timeline.device
        starts = [int(table.start_ns[0]) for table in (host, device) if len(table)]
        self._begin = min(starts, default=0)
        self._start, self._dur = device.start_ns, device.dur_ns
        self._category, self._categories = _categories(timeline)
        launched = launch_ends(trace)
        self._chain = chain = HostChain(trace, launched, begin=self._begin)
        # Only work that was launched before can hold an event back.
        rank = np.empty(len(device), dtype=np.int32)
        rank[np.argsort(launched, kind="stable")] = np.arange(len(device), dtype=np.int32)
        told = stream_waits(trace)
        fits = self._holds_back(told.waited_for, told.row, rank)
        pairs = (told.row[fits], told.waited_for[fits])
        linked, after = self._after_work(previous_on_stream(timeline), pairs, rank)
        self.latency, self.gap = self._delays(launched, after)
        epoch = _epochs(chain)
        self._bursts = bursts = Bursts(
            device,
            linked=linked,
            epoch=epoch,
            rank=rank,
            told=pairs,
            waited_for=chain.device_row,
        )
        # Without launch and known predecessor, an event begins when it did.
        alone = (launched < 0) & (after == _NEVER_NS)
        del rank, linked, after
        self._fixed: Floats | None = None
        if (launched < 0).any():
            self._fixed = np.where(alone, self._start, -np.inf)[bursts.rows]
        del launched, alone
        # What follows is by place in the bursts: each replay goes through it in that order.
        self._place, self._epoch = chain.place[bursts.rows], epoch[bursts.rows]
        self._of_category = self._category[bursts.rows]
        self._in_bursts = [column[bursts.rows] for column in (self.latency, self.gap, self._dur)]
        self._bursts_until: list[int] = np.searchsorted(
            self._bursts.epoch, np.arange(len(chain.returns) + 2), side="right"
        ).tolist()
        self.span_ns = self.run(Left())

    @property
    def part_ns(self) -> dict[str, dict[str, int]]:
        """How much the trace holds of each part: host work, device work and delays, by name."""
        host = self._chain.work_ns
        device = summed(self._category, self._dur, len(self._categories)).tolist()
        delays = {
            "launch_latency": self._latency_ns,
            "queue": self._queue_ns,
            "sync": self._chain.waited_ns,
        }
        return {
            "host": {name: ns for name, ns in zip(ACTIVITIES, host, strict=True) if ns},
            "device": dict(zip(self._categories, device, strict=True)),
            "delay": delays,
        }

    def run(self, left: Left) -> int:
        """Return how long the trace lasts with parts shortened."""
        chain = self._chain
        work = chain.work(np.array([left.activity.get(name, 1.0) for name in ACTIVITIES]))
        # The host's time at each place if it never waited, in all and since its last wait.
        at = np.cumsum(work, out=work)
        base = np.concatenate(([0.0, 0.0], at[chain.returns]))
        of_category = np.array([left.category.get(name, 1.0) for name in self._categories])

        def of(block: slice) -> tuple[Floats, Floats, Floats]:
            latency, gap, dur = (column[block] for column in self._in_bursts)
            place = self._place[block]
            ready = latency * left.launch_latency + at[place] - base[self._epoch[block]]
            if self._fixed is not None:
                ready = np.where(place >= 0, ready, self._fixed[block])
            took: Floats = dur * of_category[self._of_category[block]]
            return ready, (gap * left.queue).astype(np.float64), took

        worked = np.diff(np.append(base[1:], at[-1])).tolist()
        ends = self._bursts.ends(of)
        return round(self._go_through(*ends, worked, waits=left.waits) - self._begin)

    def _go_through(
        self,
        from_host: list[float],
        from_before: list[float],
        worked: list[float],
        *,
        waits: bool,
    ) -> float:
        """Put bursts and waits together, in order; return when the last of it ends."""
        before, told, until = self._bursts.before, self._bursts.told, self._bursts_until
        ends = [-np.inf] * (len(before) + 1)  # one more, found by index -1
        after: list[float] = [*self._chain.after_ns.tolist(), 0]
        returned = [*self._bursts.waited_for, -1]
        host, first = 0.0, 0
        # What no launch of the trace explains is in the first epoch, before the host's.
        for epoch, last in enumerate(until):
            if epoch == 1:
                host = float(self._begin)
            for burst in range(first, last):
                ready = ends[before[burst]]
                if burst in told:
                    ready = max(ready, *(ends[other] for other in told[burst]))
                ends[burst] = max(host + from_host[burst], ready + from_before[burst])
            first = last
            if epoch:
                host += worked[epoch - 1]
                if waits:
                    host = max(host, ends[returned[epoch - 1]] + after[epoch - 1])
        return max(host, *ends)

    def _holds_back(self, other: Index, row: Index, rank: Int32) -> Mask:
        """Tell for pairs of device rows whether the other can be what a row waited for."""
        ended = self._start[other] + self._dur[other] <= self._start[row]
        before: Mask = (other >= 0) & ended & (rank[other] < rank[row])
        return before

    def _after_work(
        self, previous: Int32, told: tuple[Int64, Int64], rank: Int32
    ) -> tuple[Mask, Int64]:
        """Return which rows wait for the one before on their stream, and how long after work.

        That is after the end of what each row waited for, `_NEVER_NS` where that is nothing.
        """
        linked = np.zeros(len(previous), dtype=np.bool_)
        after = np.full(len(previous), _NEVER_NS)
        for block in blocks(len(previous)):
            other, rows = previous[block], np.arange(block.start, block.stop)
            linked[block] = held = self._holds_back(other, rows, rank)
            since = self._start[block] - self._start[other] - self._dur[other]
            after[block] = np.where(held, since, _NEVER_NS)
        row, ended = told
        np.minimum.at(after, row, self._start[row] - self._start[ended] - self._dur[ended])
        return linked, after

    def _delays(self, launched: Int64, after_work: Int64) -> tuple[Index, Index]:
        """Return the delays after an event's launch and after the work before it.

        The later of launch and work explains the start. The other one gets the usual delay of
        its kind, or less where there was less time, and so changes nothing by itself.
        """
        after_launch = np.where(launched >= 0, self._start - launched, _NEVER_NS)
        by_launch = (launched >= 0) & (after_launch <= after_work)
        by_work = ~by_launch & (after_work != _NEVER_NS)
        latencies, gaps = after_launch[by_launch], after_work[by_work]
        self._latency_ns, self._queue_ns = int(latencies.sum()), int(gaps.sum())
        np.minimum(after_launch, _usual(latencies), out=after_launch, where=~by_launch)
        latency = narrowed(after_launch)
        del latencies, after_launch
        gap = np.where(by_work, after_work, np.minimum(after_work, _usual(gaps)))
        return latency, narrowed(gap)


def _epochs(chain: HostChain) -> Int32:
    """Return, by device row, after how many returns it was launched, from 1 on; 0 for no launch."""
    epoch = np.zeros(len(chain.place), dtype=np.int32)
    for block in blocks(len(epoch)):
        place = chain.place[block]
        epoch[block] = np.where(place >= 0, np.searchsorted(chain.returns, place) + 1, 0)
    return epoch


def _usual(delays: Int64) -> int:
    some = delays[delays > 0]
    return int(np.median(some)) if len(some) else 0


def _categories(timeline: Timeline) -> tuple[Int8, list[str]]:
    """Return each device event's category (of the kernel, or copy or fill) and their names."""
    device = timeline.device
    is_kernel = of_category(device, "kernel")
    known: dict[str, int] = {}
    by_name = np.zeros(len(timeline.names), dtype=np.int8)
    for name in used(device.name[is_kernel]):
        by_name[name] = known.setdefault(categorize(timeline.names[name]), len(known))
    by_category = np.zeros(len(CATEGORIES), dtype=np.int8)
    for category in used(device.category[~is_kernel]):
        by_category[category] = known.setdefault(CATEGORIES[category], len(known))
    of_kernel, of_other = looked_up(by_name, device.name), looked_up(by_category, device.category)
    return np.where(is_kernel, of_kernel, of_other), list(known)
