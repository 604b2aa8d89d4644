"""Whether a phase takes longer from step to step; memory has `memory_growth.py`."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.memory.trend import lasting_slope
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session

PACE = (Phase.BACKWARD, Phase.OPTIMIZER_STEP)
"""Phases whose work is the same in each step of most programs."""
BUCKETS = 16
MIN_PER_BUCKET = 5
"""Medians of fewer steps follow single slow ones."""


@dataclass(frozen=True)
class Growth:
    """A value that rises all along, by its medians at the run's start and end."""

    first: int
    last: int
    mean_above_first: int
    """How far the mean lies above the start: what growing has cost so far per step."""
    per_step: float
    before_first: int = 0
    """How much it had grown from the session's first step to `first`, at the same pace."""


def growth(values: Int64, *, steps_before: int = 0) -> Growth | None:
    """Return how a series (shape `(n,)`, in step order) grows, or None where it does not, or stops.

    >>> growth(np.arange(80) * 10).per_step
    10.0
    >>> growth(np.array([1, 5] * 40)) is None, growth(np.arange(160).clip(max=60)) is None
    (True, True)
    """
    if len(values) < BUCKETS * MIN_PER_BUCKET:
        return None
    parts = np.array_split(values, BUCKETS)
    medians = np.array([int(np.median(part)) for part in parts], dtype=np.float64)
    if lasting_slope(np.arange(BUCKETS, dtype=np.float64), medians) is None:
        return None
    buckets = [int(median) for median in medians]
    span = len(values) * (BUCKETS - 1) / BUCKETS
    per_step = (buckets[-1] - buckets[0]) / span
    middle_of_first = steps_before + len(values) / BUCKETS / 2
    return Growth(
        first=buckets[0],
        last=buckets[-1],
        mean_above_first=max(0, round(sum(buckets) / BUCKETS) - buckets[0]),
        per_step=per_step,
        before_first=min(buckets[0], round(per_step * middle_of_first)),
    )


def phase_growth(session: Session, steady: Mask) -> dict[Phase, Growth]:
    """Return the phases of the steady steps that take longer and longer.

    Other programs on the machine may hide that by slowing whole steps down, so a phase is also
    taken at the pace of backward and optimizer: of both, and of each by itself.
    """
    found: dict[Phase, Growth] = {}
    if steady.sum() < BUCKETS * MIN_PER_BUCKET:
        return found
    before = int(np.argmax(steady))  # the warm-up's steps, as a rule
    columns = [column[steady] for column in session.phases_ns(PACE).values()]
    works = [np.sum(columns, axis=0), *columns] if columns else []
    paces = [np.maximum(work, 1.0) / np.median(work) for work in works if np.median(work)]
    for phase, column in session.phases_ns(Phase).items():
        grown = growth(column[steady], steps_before=before)
        if grown is None and phase not in PACE:
            paced = ((column[steady] / pace).astype(np.int64) for pace in paces)
            found_at = [growth(values, steps_before=before) for values in paced]
            grown = None if None in found_at else next(iter(found_at), None)
        if grown is not None:
            found[phase] = grown
    return found
