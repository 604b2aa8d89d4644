"""Device memory over a session, whether it grows, and the batch size that all ranks can take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from lightning_gpuprof.analysis.memory.worker_growth import WorkerGrowth, worker_growth
from lightning_gpuprof.memory.batch_size import growth_reason
from lightning_gpuprof.memory.trend import MIN_WINDOWS, growth_per_step
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Advice, AdviceDetails, Memory

MAX_WINDOWS = 1000
"""Longer series are thinned out, because the estimate compares all pairs of windows."""


@dataclass(frozen=True)
class MemoryUse:
    """Device memory in torch's terms: the last reading, and the peak since the process began.

    If that peak is from before this training, the highest reading at the end of a window takes its
    place. The allocator's pool does not release its segments, so the highest reserved bytes are
    those of training.
    """

    windows: int
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    total_bytes: int
    free_bytes: int | None
    alloc_retries: int | None
    ooms: int | None
    kind_bytes: dict[str, int]
    allocator_bytes: dict[str, dict[str, int]]
    others_bytes: int | None
    """The highest use outside torch's allocator: by the context, libraries and other processes."""

    @property
    def filled_frac(self) -> float:
        """The share of the device that the peak and the use outside the allocator fill together."""
        return (self.peak_reserved_bytes + (self.others_bytes or 0)) / self.total_bytes

    @property
    def fragmented_frac(self) -> float | None:
        """The share of reserved memory that is free between used blocks and cannot be released."""
        split = self.allocator_bytes.get("inactive_split", {}).get("all")
        return None if split is None else split / max(1, self.reserved_bytes)

    @property
    def peak_frac(self) -> float:
        """The peak of reserved memory as a share of the device's memory."""
        return self.peak_reserved_bytes / self.total_bytes


def memory_use(session: Session) -> MemoryUse | None:
    """Combine the memory records of a session; None if there are none (no GPU)."""
    records = [record for record in session.all(Memory) if record.total_bytes > 0]
    if not records:
        return None
    last = records[-1]
    others = [
        max(0, record.total_bytes - record.free_bytes - record.reserved_bytes)
        for record in records
        if record.free_bytes is not None
    ]
    peak_allocated_bytes = max(record.peak_allocated_bytes for record in records)
    peak_reserved_bytes = max(record.peak_reserved_bytes for record in records)
    if last.peak_from_before:
        peak_allocated_bytes = max(record.allocated_bytes for record in records)
        peak_reserved_bytes = max(record.reserved_bytes for record in records)
    return MemoryUse(
        windows=len(records),
        allocated_bytes=last.allocated_bytes,
        reserved_bytes=last.reserved_bytes,
        peak_allocated_bytes=peak_allocated_bytes,
        peak_reserved_bytes=peak_reserved_bytes,
        total_bytes=last.total_bytes,
        free_bytes=last.free_bytes,
        alloc_retries=last.alloc_retries,
        ooms=last.ooms,
        kind_bytes=last.kind_bytes,
        allocator_bytes=last.allocator_bytes,
        others_bytes=max(others, default=None),
    )


@dataclass(frozen=True)
class MemoryGrowth:
    """Memory that is used between steps and rises steadily.

    It is read at the end of every window of steps, when activations have been freed: the allocated
    bytes of the device or, if these do not grow, the resident memory of the training process.
    """

    of_device: bool
    bytes_per_step: float
    last_bytes: int
    steps_left: int | None
    """Steps until the device, counted from the peak, or the machine is full at this pace; None if
    unknown."""


def memory_growth(session: Session) -> tuple[MemoryGrowth | None, bool]:
    """Return how a session's memory grows, and whether it was read often enough to know.

    The first window is left out, because it creates optimizer state, workspaces and caches.
    """
    on_device = [record for record in session.all(Memory) if record.total_bytes > 0][1:]
    on_host = session.all(ProcessMemory)[1:]
    watched = len(on_device or on_host) >= MIN_WINDOWS
    per_step = _bytes_per_step([(record.step, record.allocated_bytes) for record in on_device])
    if per_step is not None:
        last = on_device[-1]
        room_bytes = last.total_bytes - last.peak_reserved_bytes
        left = max(0, int(room_bytes / per_step))
        return MemoryGrowth(True, per_step, last.allocated_bytes, left), watched
    per_step = _bytes_per_step([(record.step, record.rss_bytes) for record in on_host])
    if per_step is None:
        return None, watched
    room = [r.available_bytes for r in on_host if r.available_bytes is not None]
    steps_left = int(room[-1] / per_step) if room else None
    return MemoryGrowth(False, per_step, on_host[-1].rss_bytes, steps_left), watched


def _bytes_per_step(series: Sequence[tuple[int, int]]) -> float | None:
    """Return by how much a series of pairs (step, bytes) grows per step; None if it does not."""
    slopes = growth_per_step(series[:: max(1, -(-len(series) // MAX_WINDOWS))])
    return None if slopes is None else slopes[0]


def rank_advice(ranks: Mapping[int, Session], growth: MemoryGrowth | None = None) -> Advice | None:
    """Return the last suggestion of the rank that allows the smallest batch; it names the rank.

    All ranks get the same batch size, so the rank with the least free memory decides. A suggestion
    is withdrawn if memory turned out to grow between steps.
    """
    advised = {rank: session.last(Advice) for rank, session in ranks.items()}
    last = {rank: advice for rank, advice in advised.items() if advice is not None}
    if not last:
        return None
    withheld = [rank for rank, advice in last.items() if advice.suggested_batch_size is None]
    rank = withheld[0] if withheld else min(last, key=lambda rank: _allowed(last[rank]))
    advice = last[rank]
    if growth is not None and growth.of_device and advice.suggested_batch_size is not None:
        advice = msgspec.structs.replace(
            advice,
            suggested_batch_size=None,
            low=None,
            high=None,
            reason=growth_reason(growth.bytes_per_step),
            details=AdviceDetails(),
        )
    if len(ranks) == 1:
        return advice
    details = msgspec.structs.replace(advice.details, rank=rank, ranks_advised=len(last))
    missing = len(ranks) - len(last)
    reason = f"rank {rank}: {advice.reason}" if advice.reason else ""
    if missing:
        more = f"{missing} of {len(ranks)} ranks measured no memory"
        reason = f"{reason}; {more}" if reason else more
    return msgspec.structs.replace(advice, details=details, reason=reason)


def _allowed(advice: Advice) -> tuple[int, int]:
    """Order advice by the suggested size, and equal sizes by the lower end of the band."""
    assert advice.suggested_batch_size is not None
    return advice.suggested_batch_size, advice.low or 0


@dataclass(frozen=True, kw_only=True)
class MemoryResults:
    """Device memory, growth of memory, and the batch size that fits."""

    use: MemoryUse | None = None
    """Use of the device's memory; None without a GPU."""
    growth: MemoryGrowth | None = None
    """Growth from step to step; None if memory does not grow, or was not recorded often enough."""
    watched: bool = False
    """Whether memory was recorded often enough to know if it grows."""
    workers: WorkerGrowth | None = None
    """Memory of the loader's workers; None if there are none, or if it was not read for long."""
    advice: Advice | None = None
    """The smallest suggestion of all ranks."""


def memory_results(session: Session, ranks: Mapping[int, Session]) -> MemoryResults:
    """Collect the results on memory; `ranks` holds the same session of every rank."""
    growth, watched = memory_growth(session)
    return MemoryResults(
        use=memory_use(session),
        growth=growth,
        watched=watched,
        workers=worker_growth(session),
        advice=rank_advice(ranks, growth),
    )
