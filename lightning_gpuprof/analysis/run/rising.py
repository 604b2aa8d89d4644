"""Rare work that takes longer each time: validations, callbacks, checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.analysis.run.every_step import Spread, between_epochs
from lightning_gpuprof.analysis.run.growth import (
    PACE,
    Floats,
    growth,
    pace_of,
    steady_work,
)
from lightning_gpuprof.analysis.run.phase_split import part_columns
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.memory.trend import lasting_slope, rises
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
"""A time that stands out so far is rare work, not the little of every step."""
MIN_RISE = 0.25
"""Of the first time. The medians of three validations of one program, equal ones, lay up to a tenth
apart in runs beside other work."""
FIRST = 3
"""Times whose median is the first: one alone may be chance."""
_NOT_BY_STEP = (*PACE, Phase.GARBAGE_COLLECTION)


@dataclass(frozen=True)
class Rising:
    """Something that takes longer each time, faster than the training beside it gets slower.

    `first_ns` and `last_ns` are medians of `FIRST` times, `more_ns` is the median rise from one
    time to the next, `cost_ns` the mean cost per step above the very first time. `name` is None for
    a phase as a whole.
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
    steps: int
    """Steps in which they would have been seen."""


def rising(spread: Spread) -> tuple[Rising, ...]:
    """Return what rises, by phase and by part of a phase, that of the greatest cost first."""
    session, steady = spread.session, spread.steady
    if not session.steps or not steady.any():
        return ()
    work, starts = steady_work(session, steady), session.columns["start_ns"][steady]
    found = [
        risen
        for key, times in (*_in_steps(spread), *_between(spread))
        if (risen := _risen(key, times, _pace(work, starts, times.at_ns))) is not None
    ]
    found += _in_each_step(session, steady, work)
    return tuple(sorted(found, key=lambda one: -one.cost_ns))


def _in_each_step(session: Session, steady: Mask, work: Floats) -> Iterator[Rising]:
    """Return what grows with each step, and not as others do."""
    pace, before = pace_of(work), int(np.argmax(steady))  # the warm-up's steps, as a rule
    phases = {p.value: c for p, c in session.phases_ns(Phase).items() if p not in _NOT_BY_STEP}
    for key, column in (phases | _parts(session)).items():
        taken = column[steady]
        usual = (taken / pace).astype(np.int64)
        grown = growth(usual, steps_before=before)
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
            cost_ns=grown.before_first + grown.mean_above_first,
        )


def _in_steps(spread: Spread) -> Iterator[tuple[str, _Times]]:
    """Return the times at which each phase and part was at work, in steps."""
    session, steady = spread.session, spread.steady
    starts, marked = session.columns["start_ns"], int(steady.sum())
    columns = {phase.value: column for phase, column in session.phases_ns(RARE).items()}
    for key, column in (columns | _parts(session)).items():
        least = max(ABOVE_MEDIAN * np.median(column[steady]), OF_LONGEST * column.max())
        chosen = steady & (column > least)
        yield key, _Times(starts[chosen], column[chosen], marked)


def _between(spread: Spread) -> Iterator[tuple[str, _Times]]:
    """Return them for what is between epochs: before one and after one are two things."""
    spans = between_epochs(spread.session)
    steps = spread.session.steps + spread.steps
    for where in dict.fromkeys(span.where for span in spans):
        taken: dict[str, list[tuple[int, int]]] = {}
        for span in spans:
            if span.where == where:
                for key, ns in (span.phase_ns | span.part_ns).items():
                    taken.setdefault(key, []).append((span.start_ns, ns))
        for key, rows in taken.items():
            if _phase(key) in RARE:
                at_ns, taken_ns = np.array(rows, dtype=np.int64).T
                stands_out = taken_ns > OF_LONGEST * taken_ns.max()
                yield key, _Times(at_ns[stands_out], taken_ns[stands_out], steps)


def _phase(key: str) -> Phase:
    return Phase(key.partition("/")[0])


def _parts(session: Session) -> dict[str, Int64]:
    measured = session.start.phases
    columns = part_columns(session).items()
    return {k: c for k, c in columns if _phase(k) in RARE and _phase(k).value in measured}


def _risen(key: str, times: _Times, pace: Floats) -> Rising | None:
    """Return how they rise, by themselves and by the pace of the steps, or None."""
    seen = len(times.taken_ns)
    if seen < MIN_TIMES:
        return None
    taken = times.taken_ns.astype(np.float64)
    usual = taken / pace
    slopes = lasting_slope(np.arange(seen, dtype=np.float64), usual)
    first, last = float(np.median(usual[:FIRST])), float(np.median(usual[-FIRST:]))
    if slopes is None or not rises(taken) or last < (1 + MIN_RISE) * first:
        return None
    # Half of the first few lie before their median.
    begun = max(0.0, first - slopes[0] * (FIRST // 2))
    return Rising(
        phase=_phase(key),
        name=key.partition("/")[2] or None,
        times=seen,
        steps=times.steps,
        first_ns=round(first),
        last_ns=round(last),
        more_ns=round(slopes[0]),
        cost_ns=max(0, round(float((usual - begun).sum()) / times.steps)),
    )


def _pace(work: Floats, starts: Int64, at_ns: Int64) -> Floats:
    """Return how much longer than usual the steps took since the time before, for each time."""
    usual = float(np.median(work)) or 1.0
    cuts = np.searchsorted(starts, at_ns)
    since = [float(np.median(part)) if len(part) else usual for part in np.split(work, cuts)[:-1]]
    pace: Floats = np.maximum(since, 1.0) / usual
    return pace
