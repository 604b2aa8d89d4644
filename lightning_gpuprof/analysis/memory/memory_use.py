"""Device memory over a session, from the per-window records."""

from dataclasses import dataclass

from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory

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
