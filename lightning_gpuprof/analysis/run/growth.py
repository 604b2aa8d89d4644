"""Phases that take longer and longer. `memory_use.py` does the same for memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.memory.trend import lasting_slope
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session

PACE = (Phase.BACKWARD, Phase.OPTIMIZER_STEP)
"""Phases whose work is the same in every step of most programs."""
BUCKETS = 16
MIN_PER_BUCKET = 5
"""The median of fewer steps depends on single slow steps."""


@dataclass(frozen=True)
class Growth:
    """A value that rises throughout a run."""

    first: int
    """The median of the first sixteenth of the steps."""
    last: int
    """The median of the last sixteenth."""
    mean_above_first: int
    """By how much the mean exceeds `first`: what the growth has cost per step so far."""
    per_step: float
    before_first: int = 0
    """How much the value had grown from the session's first step to `first`, at the same pace."""


def growth(values: Int64, *, steps_before: int = 0) -> Growth | None:
    """Return how a series (shape `(n,)`, in step order) grows; None if it does not, or stops to.

    >>> growth(np.arange(80) * 10).per_step
    10.0
    >>> growth(np.array([1, 5] * 40)) is None, growth(np.arange(160).clip(max=60)) is None
    (True, True)
    """
    if len(values) < BUCKETS * MIN_PER_BUCKET:
        return None
    buckets_of_values = np.array_split(values, BUCKETS)
    medians = np.array([int(np.median(bucket)) for bucket in buckets_of_values], dtype=np.float64)
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
    """Return the phases that take longer and longer over the steady steps.

    Other programs on the machine may slow whole steps down and thereby hide the growth of a phase.
    A phase therefore also counts as growing if it grows relative to the pace of the steps. The
    pace is that of backward and optimizer: it must grow relative to both together and to either.
    """
    growing: dict[Phase, Growth] = {}
    if steady.sum() < BUCKETS * MIN_PER_BUCKET:
        return growing
    before = int(np.argmax(steady))  # usually the number of warm-up steps
    columns = [column[steady] for column in session.phases_ns(PACE).values()]
    works = [np.sum(columns, axis=0), *columns] if columns else []
    paces = [np.maximum(work, 1.0) / np.median(work) for work in works if np.median(work)]
    for phase, column in session.phases_ns(Phase).items():
        grown = growth(column[steady], steps_before=before)
        if grown is None and phase not in PACE:
            grown = _growth_by_every_pace(column[steady], paces, before)
        if grown is not None:
            growing[phase] = grown
    return growing


def _growth_by_every_pace(
    values: Int64, paces: Sequence[Floats], steps_before: int
) -> Growth | None:
    """Return how a series grows relative to the first pace, if it grows relative to all of them."""
    by_first = None
    for pace in paces:
        relative = growth((values / pace).astype(np.int64), steps_before=steps_before)
        if relative is None:
            return None
        by_first = by_first or relative
    return by_first
