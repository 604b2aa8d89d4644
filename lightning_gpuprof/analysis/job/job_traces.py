"""Compares the collectives of a job's ranks: time on the wire, waits, and who comes last.

Clocks of hosts differ by seconds, so no times of two ranks are compared. A collective ends for all
ranks at about the same time, and begins for each when it arrives: the rank for which it is shortest
came last, and the others waited for as much longer as it was for them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from lightning_gpuprof.analysis.job.job_tables import (
    DEVICE_PARTS,
    HOST_PARTS,
    CollectiveTime,
    Delay,
    JobTraces,
    RankTime,
)
from lightning_gpuprof.analysis.job.rank_trace import NO_STEP, RankTrace
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import MISSING

MIN_WAIT_NS = 20_000
MIN_WAIT_FRAC = 0.1
"""A rank counts as last if the others wait for it longer than this, and than this share of the time
on the wire: less is what starting a kernel varies by."""
_ALL_TWICE, _OTHERS, _ONCE = 2.0, 1.0, 0.0
_FACTORS = {
    "all_reduce": _ALL_TWICE,
    "all_gather": _OTHERS,
    "reduce_scatter": _OTHERS,
    "all_to_all": _OTHERS,
    "broadcast": _ONCE,
    "reduce": _ONCE,
    "send_recv": _ONCE,
}
"""How often a rank sends the other ranks' share of the data; with `_ONCE`, all data once."""


def bus_factor(kind: str, ranks: int) -> float | None:
    """Return bus bandwidth over algorithm bandwidth (NCCL tests, doc/PERFORMANCE.md).

    >>> bus_factor("all_reduce", 4), bus_factor("all_gather", 4), bus_factor("broadcast", 4)
    (1.5, 0.75, 1.0)
    """
    times = _FACTORS.get(kind)
    if times is None or ranks < 1:
        return None
    return times * (ranks - 1) / ranks if times else 1.0


@dataclass(frozen=True)
class _Matched:
    """Collectives of one kind and group that several ranks recorded.

    Args:
        kind, group, group_size: What they have in common, as in `Collective`.
        ranks: Those that have any.
        rows: The index of each collective in its rank's trace: a row per rank, a column for each.
        count: The most that a rank has, matched or not.
    """

    kind: str
    group: str
    group_size: int | None
    ranks: Sequence[RankTrace]
    rows: Int64
    count: int

    @property
    def dur_ns(self) -> Int64:
        rows = zip(self.ranks, self.rows, strict=True)
        return np.stack([trace.dur_ns[row] for trace, row in rows])

    @property
    def parts(self) -> Int64:
        """What each rank did before: rank, collective, part."""
        rows = zip(self.ranks, self.rows, strict=True)
        return np.stack([trace.parts[row] for trace, row in rows])

    @property
    def num_bytes(self) -> Int64:
        """The bytes of each collective, the most of any rank; `MISSING` if not recorded."""
        rows = zip(self.ranks, self.rows, strict=True)
        sizes: Int64 = np.stack([_sizes(trace)[trace.kind[row]] for trace, row in rows])
        largest: Int64 = sizes.max(axis=0)
        return largest


def _sizes(trace: RankTrace) -> Int64:
    """Return the bytes of a collective of each of a trace's kinds."""
    sizes = (MISSING if kind.num_bytes is None else kind.num_bytes for kind in trace.kinds)
    return np.fromiter(sizes, dtype=np.int64, count=len(trace.kinds))


def job_traces(
    traces: Iterable[RankTrace], world_size: int, warnings: Sequence[str] = ()
) -> JobTraces:
    """Compare the ranks of a job.

    Args:
        traces: One per rank; ranks may be missing.
        world_size: The ranks of the job.
        warnings: What could not be read, in sentences.
    """
    ranks = sorted(traces, key=lambda trace: trace.rank)
    matched = list(_matched(ranks))
    waited, delays = _waits(matched), _delays(matched)
    last = {delay.rank: delay.count for delay in delays}
    compared = {trace.rank for group in matched if len(group.ranks) > 1 for trace in group.ranks}
    present = {trace.rank for trace in ranks}
    notes = [*warnings, *_unmatched(matched)]
    for trace in ranks:
        notes += [f"{trace.file}: {warning}" for warning in trace.warnings]
    return JobTraces(
        world_size=world_size,
        ranks=tuple(
            RankTime(
                rank=trace.rank,
                file=trace.file,
                steps=trace.steps,
                span_ns=trace.span_ns,
                device=trace.device,
                collectives=len(trace.kind),
                in_collectives_ns=trace.in_collectives_ns,
                waited_ns=waited[trace.rank] if trace.rank in compared else None,
                last_count=last.get(trace.rank, 0) if trace.rank in compared else None,
            )
            for trace in ranks
        ),
        missing=tuple(rank for rank in range(world_size) if rank not in present),
        collectives=_rows(matched),
        delays=delays,
        on_device=any(trace.on_device for trace in ranks),
        warnings=tuple(notes),
    )


def _matched(ranks: Sequence[RankTrace]) -> Iterator[_Matched]:
    """Match the collectives of each kind and group; their sizes may differ between ranks."""
    having: dict[tuple[str, str], list[tuple[RankTrace, Int64]]] = defaultdict(list)
    for trace in ranks:
        indices: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, collective in enumerate(trace.kinds):
            indices[collective.kind, collective.group].append(index)
        for key, own in indices.items():
            having[key].append((trace, np.flatnonzero(np.isin(trace.kind, own))))
    for (kind, name), members in having.items():
        sizes = (
            collective.group_size
            for trace, _ in members
            for collective in trace.kinds
            if (collective.kind, collective.group) == (kind, name)
        )
        yield _Matched(
            kind,
            name,
            next(filter(None, sizes), None),
            [trace for trace, _ in members],
            _rows_together(members),
            max(len(rows) for _, rows in members),
        )


def _rows_together(members: Sequence[tuple[RankTrace, Int64]]) -> Int64:
    """Return the rows of the same collectives in each rank's trace.

    They are matched by the sequence number in their process group where that is recorded; else by
    the number of their step and their order in it, in steps of which all ranks have equally many;
    without marked steps by order, if all ranks have equally many.
    """
    numbers = [trace.sequence[rows] for trace, rows in members]
    if all((own[:1] >= 0).all() and (np.diff(own) > 0).all() for own in numbers):
        common = reduce(np.intersect1d, numbers)
        together = (
            rows[np.isin(own, common)] for own, (_, rows) in zip(numbers, members, strict=True)
        )
        return np.stack([*together])
    if all((trace.step[rows] != NO_STEP).any() for trace, rows in members):
        by_step = [_by_step(trace.step[rows], rows) for trace, rows in members]
        first, *others = by_step
        steps = [
            step
            for step in sorted(first)
            if all(len(rows.get(step, ())) == len(first[step]) for rows in others)
        ]
        nothing = np.empty(0, dtype=np.int64)
        return np.stack(
            [np.concatenate([nothing, *(rows[step] for step in steps)]) for rows in by_step]
        )
    if len({len(rows) for _, rows in members}) == 1:
        return np.stack([rows for _, rows in members])
    return np.empty((len(members), 0), dtype=np.int64)


def _by_step(steps: Int64, rows: Int64) -> dict[int, Int64]:
    """Return rows, which are in order of time, by the number of their step."""
    order = np.argsort(steps, kind="stable")
    numbers, first = np.unique(steps[order], return_index=True)
    pieces = np.split(rows[order], first[1:])
    return {
        number: piece
        for number, piece in zip(numbers.tolist(), pieces, strict=True)
        if number != NO_STEP
    }


def _unmatched(matched: Sequence[_Matched]) -> Iterator[str]:
    lost = sum(group.count - group.rows.shape[1] for group in matched if len(group.ranks) > 1)
    if lost:
        yield (
            f"Collectives that are not in the traces of all ranks of their group: {lost:,}. These "
            "are not compared."
        )


def _late(group: _Matched) -> tuple[Int64, Int64, Int64]:
    """Return each rank's waits, who came last, and which collectives kept others waiting."""
    dur = group.dur_ns
    wire = dur.min(axis=0)
    waits = dur - wire
    others = waits.sum(axis=0) / max(1, len(group.ranks) - 1)
    delaying = np.flatnonzero((others > MIN_WAIT_NS) & (others > MIN_WAIT_FRAC * wire))
    return waits, dur.argmin(axis=0), delaying


def _waits(matched: Sequence[_Matched]) -> dict[int, int]:
    """Return how long each rank waited for others."""
    waited: dict[int, int] = defaultdict(int)
    for group in matched:
        waits = group.dur_ns - group.dur_ns.min(axis=0)
        for trace, of_rank in zip(group.ranks, waits.sum(axis=1).tolist(), strict=True):
            waited[trace.rank] += of_rank
    return waited


def _rows(matched: Sequence[_Matched]) -> tuple[CollectiveTime, ...]:
    """Return a row for each kind and process group, the one with the most time first."""
    rows = map(_row, matched)
    return tuple(sorted(rows, key=lambda row: -(row.wire_ns + row.waited_ns)))


def _row(group: _Matched) -> CollectiveTime:
    dur, sizes = group.dur_ns, group.num_bytes
    shortest = dur.min(axis=0)
    sized = sizes >= 0
    moved, sized_ns = int(sizes[sized].sum()), int(shortest[sized].sum())
    # A rank's own duration bounds the wire's from above; it is shown as such if ranks are missing.
    rate = moved * 1e9 / sized_ns if moved and sized_ns else None
    factor = bus_factor(group.kind, group.group_size) if group.group_size else None
    bus = rate * factor if rate is not None and factor is not None else None
    return CollectiveTime(
        kind=group.kind,
        group=group.group,
        ranks=len(group.ranks),
        group_size=group.group_size,
        count=group.count,
        matched=group.rows.shape[1],
        num_bytes=moved if sized.any() else None,
        wire_ns=int(shortest.sum()),
        waited_ns=round(float((dur - shortest).mean(axis=0).sum())),
        algorithm_bytes_per_s=rate,
        bus_bytes_per_s=bus,
        last=_delays([group]),
    )


def _delays(groups: Sequence[_Matched]) -> tuple[Delay, ...]:
    """Return the ranks that others waited for, the one that cost most first."""
    count: dict[int, int] = defaultdict(int)
    waited: dict[int, float] = defaultdict(float)
    excess: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for group in groups:
        others = len(group.ranks) - 1
        if not others or not group.rows.shape[1]:
            continue
        waits, latest, delaying = _late(group)
        parts = group.parts
        names = DEVICE_PARTS if parts.shape[2] == len(DEVICE_PARTS) else HOST_PARTS
        for column in delaying.tolist():
            index = int(latest[column])
            rank = group.ranks[index].rank
            count[rank] += 1
            waited[rank] += float(waits[:, column].sum()) / others
            mean = (parts[:, column].sum(axis=0) - parts[index, column]) / others
            for name, more in zip(names, (parts[index, column] - mean).tolist(), strict=True):
                excess[rank][name] += more
    delays = [
        Delay(
            rank, count[rank], round(waited[rank]), max(excess[rank], key=excess[rank].__getitem__)
        )
        for rank in count
    ]
    return tuple(sorted(delays, key=lambda delay: -delay.waited_ns))
