"""Does something grow from step to step: a phase's time, or memory."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lightning_gpuprof.analysis.distribution import Int64
from lightning_gpuprof.analysis.steady import Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory, Note

BUCKETS = 8
MIN_PER_BUCKET = 5
"""Medians of fewer steps follow single slow ones."""
RISING = 7 / 8
"""Share of all pairs of buckets of which the later must be the higher: for eight values in random
order, that happens in one of 10,000 runs (Kendall's test)."""
RSS_NOTE = "rss_bytes"
"""Note of this name: the training process's resident memory at a window's end."""


@dataclass(frozen=True)
class Growth:
    """A value that rises all along, by its medians at the run's start and end."""

    first: int
    last: int
    mean_above_first: int
    """How far the mean lies above the start: what growing has cost so far per step."""
    per_step: float


def growth(values: Int64) -> Growth | None:
    """Return how a series (shape `(n,)`, in step order) grows, or None where it does not.

    >>> growth(np.arange(80) * 10).per_step
    10.0
    >>> growth(np.array([1, 5] * 40)) is None
    True
    """
    if len(values) < BUCKETS * MIN_PER_BUCKET:
        return None
    buckets = [int(np.median(part)) for part in np.array_split(values, BUCKETS)]
    pairs = [(a, b) for i, a in enumerate(buckets) for b in buckets[i + 1 :]]
    if sum(b > a for a, b in pairs) < RISING * len(pairs):
        return None
    span = len(values) * (BUCKETS - 1) / BUCKETS
    return Growth(
        first=buckets[0],
        last=buckets[-1],
        mean_above_first=max(0, round(sum(buckets) / BUCKETS) - buckets[0]),
        per_step=(buckets[-1] - buckets[0]) / span,
    )


def phase_growth(session: Session, steady: Mask) -> dict[Phase, Growth]:
    """Return the phases of the steady steps that take longer and longer."""
    found = {}
    for phase in Phase:
        column = session.phase_ns(phase)
        if column is not None and (grown := growth(column[steady])) is not None:
            found[phase] = grown
    return found


@dataclass(frozen=True)
class MemoryGrowth:
    """Memory that rises all along: of the device, or of the training process."""

    of_device: bool
    first_bytes: int
    last_bytes: int
    bytes_per_step: float


def memory_growth(session: Session) -> tuple[MemoryGrowth | None, bool]:
    """Return how memory grew, and whether it was measured often enough to say."""
    device = [(record.step, record.allocated_bytes) for record in session.all(Memory)]
    if not device:
        notes = [note for note in session.all(Note) if note.name == RSS_NOTE]
        series = [(note.step, note.value) for note in notes if isinstance(note.value, int)]
        return _grown(series, of_device=False)
    return _grown(device, of_device=True)


MIN_RECORDS = 4
"""From this many records (one per window) on, the first left out for it holds the warm-up."""


def _grown(series: list[tuple[int, int]], *, of_device: bool) -> tuple[MemoryGrowth | None, bool]:
    if len(series) < MIN_RECORDS:
        return None, False
    kept = series[1:]
    sizes = [size for _, size in kept]
    rises = sum(b > a for a, b in pairwise(sizes))
    steps = kept[-1][0] - kept[0][0]
    # A cache that fills rises too and then stops: the last record must be among the risen ones.
    if steps <= 0 or rises < RISING * (len(sizes) - 1) or sizes[-1] <= sizes[-2]:
        return None, True
    per_step = (sizes[-1] - sizes[0]) / steps
    return MemoryGrowth(of_device, sizes[0], sizes[-1], per_step), True
