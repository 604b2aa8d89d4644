"""Reads the device allocator's counters and this process's memory, and resets neither."""

import os
from dataclasses import dataclass, field
from typing import Any

import torch

_COUNTING = ("native", "cudaMallocAsync")
"""Names of torch's own allocator, and of the driver's behind torch's calls."""
POOLS = ("all", "small_pool", "large_pool")


@dataclass(frozen=True)
class MemoryReading:
    """Device memory in bytes, as torch names it; peaks are since the process began.

    They are since the last `torch.cuda.reset_peak_memory_stats()` where the program calls it.
    """

    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    split_bytes: int
    """Free now, in segments that are partly in use; the pool cannot release them."""
    free_bytes: int
    total_bytes: int
    alloc_retries: int
    ooms: int
    allocator_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Allocated, active, inactive split and reserved: of all, the small and the large pool."""

    @property
    def others_bytes(self) -> int:
        """Used on the device outside torch's allocator: context, libraries, other processes."""
        return max(0, self.total_bytes - self.free_bytes - self.reserved_bytes)


class CudaMemory:
    """Reads the memory of a CUDA or HIP device from torch's caching allocator.

    Reading takes a lookup of counters, nested since torch is slow to flatten them, and one driver
    call; it never waits for the device.
    """

    def __init__(self, device: torch.device, *, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda

    def read(self) -> MemoryReading | None:
        """Return the memory now; None before the device's first use."""
        stats = self._cuda.memory_stats_as_nested_dict(self._device)
        if not stats:
            return None
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        free, total = self._cuda.mem_get_info(self._device)
        return MemoryReading(
            allocated_bytes=allocated["current"],
            reserved_bytes=reserved["current"],
            peak_allocated_bytes=allocated["peak"],
            peak_reserved_bytes=reserved["peak"],
            split_bytes=stats["inactive_split_bytes"]["all"]["current"],
            free_bytes=free,
            total_bytes=total,
            alloc_retries=stats["num_alloc_retries"],
            ooms=stats["num_ooms"],
            allocator_bytes={
                name: {pool: stats[f"{name}_bytes"][pool]["current"] for pool in POOLS}
                for name in ("allocated", "active", "inactive_split", "reserved")
            },
        )


def memory_probe(device: torch.device, *, cuda: Any = torch.cuda) -> CudaMemory | None:
    """Return the reader of a device's memory, or None where it cannot be measured.

    A plugged-in allocator, such as RMM's, has no counters.
    """
    if device.type != "cuda" or cuda.memory.get_allocator_backend() not in _COUNTING:
        return None
    return CudaMemory(device, cuda=cuda)


def out_of_memory_error() -> type[RuntimeError]:
    """Return torch's error for a full device, whose place depends on the version."""
    kind: type[RuntimeError] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    return kind


def resident_bytes() -> int | None:
    """Return this process's resident memory, in some 10 us; None where there is no /proc."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(128).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
