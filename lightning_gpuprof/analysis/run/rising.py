"""What comes now and then and takes longer each time: validations, callbacks, checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.analysis.memory.memory_growth import LATE_FRAC, rises, theil_sen
from lightning_gpuprof.analysis.run.every_step import between_epochs, unmarked_spans
from lightning_gpuprof.analysis.run.growth import PACE, Floats, growth
from lightning_gpuprof.analysis.run.phase_split import part_columns
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session

RARE = (
    Phase.DATA_WAIT,
    Phase.CALLBACKS,
    Phase.LOGGING,
    Phase.CHECKPOINT,
    Phase.VALIDATION,
    Phase.OTHER,
)
"""Phases in which something may be done in few of the steps, or between epochs."""
MIN_TIMES = 8
"""Fewer cannot reach the significance asked for (`rises`)."""
ABOVE_MEDIAN, OF_LONGEST = 3, 0.02
"""What stands out of the steps so far is one of the few times, not the little of every step."""
MIN_RISE = 0.25
"""Of the first time. The medians of three validations of one program, equal ones, lay up to a tenth
apart in runs beside other work."""
FIRST = 3
"""Times whose median is the first: one alone may be chance."""
_NOT_BY_STEP = (*PACE, Phase.GARBAGE_COLLECTION)
_FLAGGED = {Phase.VALIDATION: "validation", Phase.CHECKPOINT: "checkpoint"}


@dataclass(frozen=True)
class Rising:
    """Something that takes longer each time, faster than what trains beside it gets slower.

    Args:
        phase: Where.
        name: Of a callback, a logger or a hook; None for the phase as a whole.
        times: How often it was timed.
        steps: The steps in which it came so often.
        first_ns: What it took at first, the median of `FIRST` times.
        last_ns: What it took at last, likewise.
        more_ns: How much longer it took from each time to the next, at the median of all pairs.
        cost_ns: What all times took above the first, per step.
    """

    phase: Phase
    name: str | None
    times: int
    steps: int
    first_ns: int
    last_ns: int
    more_ns: int
    cost_ns: int


class _Times(NamedTuple):
    at_ns: Int64
    taken_ns: Int64


def rising(session: Session, steady: Mask) -> tuple[Rising, ...]:
    """Return what rises, by phase and by part of a phase, that of the greatest cost first."""
    if not session.steps or not steady.any():
        return ()
    steps = int(steady.sum()) + sum(span.steps for span in unmarked_spans(session))
    found = []
    for key, times in _series(session, steady):
        name = key.partition("/")[2] or None
        risen = _risen(times, _pace(session, steady, times.at_ns))
        if risen is not None:
            first, last, more, above = risen
            cost = round(above / steps)
            found.append(
                Rising(_phase(key), name, len(times.at_ns), steps, first, last, more, cost)
            )
    found += _in_each_step(session, steady)
    return tuple(sorted(found, key=lambda one: -one.cost_ns))


def _in_each_step(session: Session, steady: Mask) -> Iterator[Rising]:
    """Return what grows with each step, in itself and against what trains beside it."""
    work = _work(session, steady)
    pace = np.maximum(work, 1.0) / (float(np.median(work)) or 1.0)
    phases = {p.value: c for p, c in session.phases_ns(Phase).items() if p not in _NOT_BY_STEP}
    for key, column in (phases | _parts(session)).items():
        taken = column[steady]
        grown = growth((taken / pace).astype(np.int64))
        if grown is None or growth(taken) is None or grown.last < (1 + MIN_RISE) * grown.first:
            continue
        yield Rising(
            phase=_phase(key),
            name=key.partition("/")[2] or None,
            times=len(taken),
            steps=len(taken),
            first_ns=grown.first,
            last_ns=grown.last,
            more_ns=round(grown.per_step),
            cost_ns=grown.mean_above_first,
        )


def _series(session: Session, steady: Mask) -> Iterator[tuple[str, _Times]]:
    """Return the times at which each phase and part was at work, in steps and between epochs."""
    starts = session.columns["start_ns"]
    columns = {phase.value: column for phase, column in session.phases_ns(RARE).items()}
    for key, column in (columns | _parts(session)).items():
        least = max(ABOVE_MEDIAN * np.median(column[steady]), OF_LONGEST * column.max())
        chosen = steady & (column > least)
        yield key, _with_unmarked(session, key, _Times(starts[chosen], column[chosen]))
    spans = between_epochs(session)
    for where in dict.fromkeys(span.where for span in spans):
        taken: dict[str, list[tuple[int, int]]] = {}
        for span in spans:
            if span.where == where:
                for key, ns in (span.phase_ns | span.part_ns).items():
                    taken.setdefault(key, []).append((span.start_ns, ns))
        for key, pairs in taken.items():
            longest = max(ns for _, ns in pairs)
            pairs = [(at, ns) for at, ns in pairs if ns > OF_LONGEST * longest]
            if _phase(key) in RARE:
                yield key, _Times(*np.array(pairs, dtype=np.int64).T)


def _phase(key: str) -> Phase:
    return Phase(key.partition("/")[0])


def _parts(session: Session) -> dict[str, Int64]:
    measured = session.start.phases
    columns = part_columns(session).items()
    return {k: c for k, c in columns if _phase(k) in RARE and _phase(k).value in measured}


def _with_unmarked(session: Session, key: str, times: _Times) -> _Times:
    """Add the mean of those in steps that were not marked, one for each window."""
    flag = _FLAGGED.get(_phase(key))
    more = [
        (span.start_ns, (span.phase_ns | span.part_ns).get(key, 0) // span.flagged[flag])
        for span in unmarked_spans(session)
        if flag is not None and span.flagged.get(flag)
    ]
    if not more:
        return times
    at_ns, taken_ns = np.array(more, dtype=np.int64).T
    every = _Times(*(np.concatenate(both) for both in zip(times, (at_ns, taken_ns), strict=True)))
    order = np.argsort(every.at_ns, kind="stable")
    return _Times(every.at_ns[order], every.taken_ns[order])


def _risen(times: _Times, pace: Floats) -> tuple[int, int, int, int] | None:
    """Return first, last and the rise from time to time, and what all took above the first."""
    count = len(times.taken_ns)
    if count < MIN_TIMES:
        return None
    taken = times.taken_ns.astype(np.float64)
    usual = taken / pace
    floors = [part.min() for part in np.array_split(usual, 3)]
    if not (rises(taken) and rises(usual) and floors[0] < floors[1] < floors[2]):
        return None
    each = np.arange(count, dtype=np.float64)
    slope, low, _ = theil_sen(each.tolist(), usual.tolist())
    half = count // 2
    late, _, _ = theil_sen(each[half:].tolist(), usual[half:].tolist())
    first, last = float(np.median(usual[:FIRST])), float(np.median(usual[-FIRST:]))
    if low <= 0 or late < LATE_FRAC * slope or last - first < MIN_RISE * first:
        return None
    above = max(0.0, float((usual - first).sum()))
    return round(first), round(last), round(slope), round(above)


def _work(session: Session, steady: Mask) -> Floats:
    """Return what each steady step took of what is the same in each step of most programs."""
    columns = list(session.phases_ns(PACE).values())
    if not columns:
        return np.ones(int(steady.sum()))
    return np.sum(columns, axis=0)[steady].astype(np.float64)


def _pace(session: Session, steady: Mask, at_ns: Int64) -> Floats:
    """Return how much longer than usual the steps took since the time before, for each time."""
    work = _work(session, steady)
    usual = float(np.median(work)) or 1.0
    cuts = np.searchsorted(session.columns["start_ns"][steady], at_ns)
    since = [float(np.median(part)) if len(part) else usual for part in np.split(work, cuts)[:-1]]
    return np.maximum(since, 1.0) / usual
