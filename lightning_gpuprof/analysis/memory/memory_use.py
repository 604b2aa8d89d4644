"""Device memory over a session, whether it grows, and the batch size that all ranks can take."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from lightning_gpuprof.memory.batch_size import growth_reason
from lightning_gpuprof.memory.trend import MIN_WINDOWS, growth_per_step
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Advice, AdviceDetails, Memory

MAX_WINDOWS = 1000
"""More are thinned out: pairs grow with the square."""
_LAST = (
    *("allocated_bytes", "reserved_bytes", "total_bytes", "free_bytes"),
    *("alloc_retries", "ooms", "kind_bytes", "allocator_bytes"),
)


@dataclass(frozen=True)
class MemoryUse:
    """Memory as torch names it: the last reading, and the peak since the process began.

    Where that peak is from before this training, the highest reading at a window's end stands for
    it; the pool keeps its segments, so the reserved bytes are those of training.
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
    """Highest use outside torch's allocator: the context, libraries, other processes."""

    @property
    def filled_frac(self) -> float:
        """The share of the device that the highest peak and the others fill together."""
        return (self.peak_reserved_bytes + (self.others_bytes or 0)) / self.total_bytes

    @property
    def fragmented_frac(self) -> float | None:
        """The share of reserved memory that is free beside blocks in use: it cannot be released."""
        split = self.allocator_bytes.get("inactive_split", {}).get("all")
        return None if split is None else split / max(1, self.reserved_bytes)

    @property
    def peak_frac(self) -> float:
        """The highest reserved memory as a share of the device's."""
        return self.peak_reserved_bytes / self.total_bytes


def memory_use(session: Session) -> MemoryUse | None:
    """Sum up the memory records, or return None where there are none (no GPU)."""
    records = [record for record in session.all(Memory) if record.total_bytes > 0]
    if not records:
        return None
    last = records[-1]
    others = [
        max(0, record.total_bytes - record.free_bytes - record.reserved_bytes)
        for record in records
        if record.free_bytes is not None
    ]
    peak = "" if last.peak_from_before else "peak_"
    return MemoryUse(
        windows=len(records),
        peak_allocated_bytes=max(getattr(one, f"{peak}allocated_bytes") for one in records),
        peak_reserved_bytes=max(getattr(one, f"{peak}reserved_bytes") for one in records),
        others_bytes=max(others, default=None),
        **{name: getattr(last, name) for name in _LAST},
    )


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


def rank_advice(ranks: Mapping[int, Session], growth: MemoryGrowth | None = None) -> Advice | None:
    """Return the last suggestion of the rank that allows least; `details` name the rank.

    One batch size goes to every rank, so the one with the least headroom decides. Growth of memory
    between steps withdraws a suggestion that was made before it showed.
    """
    last = {rank: found[-1] for rank, s in ranks.items() if (found := s.all(Advice))}
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
    """Order by size; of two held at one size, the lower band counts."""
    assert advice.suggested_batch_size is not None
    return advice.suggested_batch_size, advice.low or 0


@dataclass(frozen=True, kw_only=True)
class MemoryResults:
    """Device memory, growth of memory, and the batch size that fits."""

    use: MemoryUse | None = None
    """Of the device; None without a GPU."""
    growth: MemoryGrowth | None = None
    """Memory that grows from step to step; None where it does not, or was not watched."""
    watched: bool = False
    """Memory was recorded often enough to say whether it grows."""
    advice: Advice | None = None
    """Of all ranks: the smallest."""


def memory_results(session: Session, ranks: Mapping[int, Session]) -> MemoryResults:
    """Collect what is known of memory; `ranks` are the same session on every rank."""
    growth, watched = memory_growth(session)
    return MemoryResults(
        use=memory_use(session),
        growth=growth,
        watched=watched,
        advice=rank_advice(ranks, growth),
    )
