"""Compares the collectives of a job's ranks: time on the wire, waits, and who comes last.

Clocks of hosts differ by seconds, so no times of two ranks are compared. A collective ends for all
ranks at about the same time, and begins for each when it arrives: the rank for which it is shortest
came last, and the others waited for as much longer as it was for them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
from lightning_gpuprof.traces.kineto.collectives import Collective

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
    """Collectives of one kind that several ranks recorded; a row per rank, a column for each."""

    of: Collective
    ranks: Sequence[RankTrace]
    rows: Int64
    """Index of each collective in its rank's trace."""
    count: int
    """The most that a rank has, matched or not."""

    @property
    def dur_ns(self) -> Int64:
        rows = zip(self.ranks, self.rows, strict=True)
        return np.stack([trace.dur_ns[row] for trace, row in rows])

    @property
    def parts(self) -> Int64:
        """What each rank did before: rank, collective, part."""
        rows = zip(self.ranks, self.rows, strict=True)
        return np.stack([trace.parts[row] for trace, row in rows])


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
    waited, last = _waits(matched)
    compared = {trace.rank for group in matched if len(group.ranks) > 1 for trace in group.ranks}
    present = {trace.rank for trace in ranks}
    notes = [*warnings, *_unmatched(matched)]
    for trace in ranks:
        notes += [f"{trace.file}: {warning}" for warning in trace.warnings]
    rows = _rows(matched)
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
                last_count=last[trace.rank] if trace.rank in compared else None,
            )
            for trace in ranks
        ),
        missing=tuple(rank for rank in range(world_size) if rank not in present),
        collectives=rows,
        delays=_delays(matched),
        on_device=any(trace.on_device for trace in ranks),
        warnings=tuple(notes),
    )


def _matched(ranks: Sequence[RankTrace]) -> Iterator[_Matched]:
    """Match the collectives of each kind, size and group.

    They are matched by the number of their step and by their order in it. Traces without marked
    steps are matched by order, if all have equally many.
    """
    having: dict[Collective, list[tuple[RankTrace, Int64]]] = defaultdict(list)
    for trace in ranks:
        for index, of in enumerate(trace.kinds):
            having[of].append((trace, np.flatnonzero(trace.kind == index)))
    for of, members in having.items():
        count = max(len(rows) for _, rows in members)
        marked = all((trace.step[rows] != NO_STEP).any() for trace, rows in members)
        if marked:
            keyed = [_by_step(trace.step[rows], rows) for trace, rows in members]
            common = sorted(set.intersection(*(set(rows) for rows in keyed)))
            matched = np.array([[rows[key] for key in common] for rows in keyed], dtype=np.int64)
        elif len({len(rows) for _, rows in members}) == 1:
            matched = np.stack([rows for _, rows in members])
        else:
            matched = np.empty((len(members), 0), dtype=np.int64)
        yield _Matched(of, [trace for trace, _ in members], matched, count)


def _by_step(steps: Int64, rows: Int64) -> dict[tuple[int, int], int]:
    """Return rows by their step's number and their place among those of the step."""
    places: dict[int, int] = defaultdict(int)
    keyed = {}
    for step, row in zip(steps.tolist(), rows.tolist(), strict=True):
        if step != NO_STEP:
            keyed[step, places[step]] = row
            places[step] += 1
    return keyed


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
    kept = np.flatnonzero((others > MIN_WAIT_NS) & (others > MIN_WAIT_FRAC * wire))
    return waits, dur.argmin(axis=0), kept


def _waits(matched: Sequence[_Matched]) -> tuple[dict[int, int], dict[int, int]]:
    """Return how long each rank waited, and in how many collectives it came last."""
    waited: dict[int, int] = defaultdict(int)
    last: dict[int, int] = defaultdict(int)
    for group in matched:
        if len(group.ranks) < 2 or not group.rows.shape[1]:
            continue
        waits, latest, kept = _late(group)
        for trace, of_rank in zip(group.ranks, waits.sum(axis=1).tolist(), strict=True):
            waited[trace.rank] += of_rank
        for index in latest[kept].tolist():
            last[group.ranks[index].rank] += 1
    return waited, last


def _rows(matched: Sequence[_Matched]) -> tuple[CollectiveTime, ...]:
    """Return a row for each kind and process group, the one with the most time first."""
    by_group: dict[tuple[str, str], list[_Matched]] = defaultdict(list)
    for group in matched:
        by_group[group.of.kind, group.of.group].append(group)
    rows = [_row(kind, name, groups) for (kind, name), groups in by_group.items()]
    return tuple(sorted(rows, key=lambda row: -(row.wire_ns + row.waited_ns)))


def _row(kind: str, name: str, groups: Sequence[_Matched]) -> CollectiveTime:
    wire_ns = waited_ns = sized_ns = moved = 0
    size = next((group.of.group_size for group in groups if group.of.group_size), None)
    ranks = max(len(group.ranks) for group in groups)
    for group in groups:
        dur = group.dur_ns if group.rows.shape[1] else np.zeros((1, 0), dtype=np.int64)
        shortest = dur.min(axis=0)
        wire_ns += int(shortest.sum())
        waited_ns += round(float((dur - shortest).mean(axis=0).sum()))
        if group.of.num_bytes is not None:
            moved += group.of.num_bytes * len(shortest)
            sized_ns += int(shortest.sum())
    # A rank's own duration bounds the wire's from above; it is shown as such if ranks are missing.
    rate = moved * 1e9 / sized_ns if moved and sized_ns else None
    factor = bus_factor(kind, size) if size else None
    bus = rate * factor if rate is not None and factor is not None else None
    return CollectiveTime(
        kind=kind,
        group=name,
        ranks=ranks,
        group_size=size,
        count=sum(group.count for group in groups),
        matched=sum(group.rows.shape[1] for group in groups),
        num_bytes=moved if any(group.of.num_bytes is not None for group in groups) else None,
        wire_ns=wire_ns,
        waited_ns=waited_ns,
        algorithm_bytes_per_s=rate,
        bus_bytes_per_s=bus,
        last=_delays(groups),
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
        waits, latest, kept = _late(group)
        parts = group.parts
        names = DEVICE_PARTS if parts.shape[2] == len(DEVICE_PARTS) else HOST_PARTS
        for column in kept.tolist():
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
