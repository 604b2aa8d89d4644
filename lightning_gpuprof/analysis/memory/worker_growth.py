"""How the memory of a loader's worker processes grows, and whether by copies of the dataset."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lightning_gpuprof.memory.trend import growth_per_step
from lightning_gpuprof.records.facts import WorkerMemory
from lightning_gpuprof.records.reader import Session

MIN_READINGS = 4
"""A rise is told from four readings on; a pace needs more (`growth_per_step`)."""


@dataclass(frozen=True)
class WorkerGrowth:
    """The memory of all workers of the training loader, from their first reading to the last.

    It is that of the workers that were read most often: a loader without `persistent_workers`
    starts new ones for each epoch.
    """

    workers: int
    first_bytes: int
    """Pages that only one process uses."""
    last_bytes: int
    copied_bytes: int
    """The part of the rise that is copies of pages that workers shared with the training
    process."""
    shared_bytes: int
    """What workers still share, which is the most that further copies can add."""
    bytes_per_step: float | None
    """None if it is not sure that the memory still grows."""
    available_bytes: int | None
    """How much more memory the machine, or the container's limit, had at the last reading."""

    @property
    def by_copies(self) -> bool:
        """Whether at least half of the rise is copies."""
        return 2 * self.copied_bytes >= self.last_bytes - self.first_bytes


def worker_growth(session: Session) -> WorkerGrowth | None:
    """Return how the workers' memory grows; None if it was not read several times."""
    readings = session.all(WorkerMemory)
    counts = Counter(reading.generation for reading in readings)
    if not counts:
        return None
    generation, count = counts.most_common(1)[0]
    if count < MIN_READINGS:
        return None
    return _growth([reading for reading in readings if reading.generation == generation])


def _growth(readings: Sequence[WorkerMemory]) -> WorkerGrowth:
    first, last = readings[0], readings[-1]
    slopes = growth_per_step([(r.step, r.private_bytes) for r in readings[1:]])
    rise_bytes = max(0, last.private_bytes - first.private_bytes)
    # Copying a page leaves the process's anonymous pages as many as before; new memory does not.
    new_bytes = max(0, last.anonymous_bytes - first.anonymous_bytes)
    return WorkerGrowth(
        workers=last.workers,
        first_bytes=first.private_bytes,
        last_bytes=last.private_bytes,
        copied_bytes=max(0, rise_bytes - new_bytes),
        shared_bytes=max(0, last.anonymous_bytes - last.private_bytes),
        bytes_per_step=None if slopes is None else slopes[0],
        available_bytes=last.available_bytes,
    )
