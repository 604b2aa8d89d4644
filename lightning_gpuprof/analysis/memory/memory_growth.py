"""Whether a session's memory grows from step to step, and how fast."""

from dataclasses import dataclass

from lightning_gpuprof.memory.trend import MIN_WINDOWS, growth_per_step
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory

MAX_WINDOWS = 1000
"""More are thinned out: pairs grow with the square."""


@dataclass(frozen=True)
class MemoryGrowth:
    """Memory in use between steps rises steadily.

    It is read at the end of each window of steps, when activations are gone: the allocated
    bytes of the device or, without a GPU, the resident memory of the training process.
    """

    of_device: bool
    bytes_per_step: float
    last_bytes: int
    steps_left: int | None
    """Until the device is full at this pace, from the peak; None where its size is unknown."""


def memory_growth(session: Session) -> tuple[MemoryGrowth | None, bool]:
    """Return how a session's memory grows, and whether it was read often enough to tell.

    The first window is left out: it creates optimizer state, workspaces and caches.
    """
    records = [record for record in session.all(Memory) if record.total_bytes > 0][1:]
    series = [(record.step, record.allocated_bytes) for record in records]
    if not records:
        series = [(one.step, one.rss_bytes) for one in session.all(ProcessMemory)[1:]]
    series = series[:: -(-len(series) // MAX_WINDOWS) or 1]
    slopes = growth_per_step(series)
    if slopes is None:
        return None, len(series) >= MIN_WINDOWS
    left = None
    if records:
        room_bytes = records[-1].total_bytes - records[-1].peak_reserved_bytes
        left = max(0, int(room_bytes / slopes[0]))
    return MemoryGrowth(bool(records), slopes[0], series[-1][1], left), True
