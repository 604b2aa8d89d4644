"""Reads the memory of a device and of this process, without resetting any counter."""

import os
from dataclasses import dataclass, field
from typing import Any

import torch

_ALLOCATORS_WITH_COUNTERS = ("native", "cudaMallocAsync")
"""Torch's own allocator, and the driver's allocator if torch is set to use it."""
POOLS = ("all", "small_pool", "large_pool")


@dataclass(frozen=True)
class MemoryReading:
    """The memory of a device in bytes, by torch's names.

    Peaks are since the process began, or since the last `torch.cuda.reset_peak_memory_stats()` if
    the program calls that.
    """

    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    split_bytes: int
    """Free memory in segments that are partly in use, so that the pool cannot release it."""
    free_bytes: int
    total_bytes: int
    alloc_retries: int
    ooms: int
    allocator_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Allocated, active, inactive split and reserved bytes, each by pool."""

    @property
    def others_bytes(self) -> int:
        """Memory in use outside torch's allocator: by context, libraries and other processes."""
        return max(0, self.total_bytes - self.free_bytes - self.reserved_bytes)


class CudaMemory:
    """Reads the memory of a CUDA or HIP device from torch's caching allocator.

    A reading takes a look-up of counters and a call of the driver, and never waits for the device.
    The counters are read as a nested dict, because torch is slow to flatten them.
    """

    def __init__(self, device: torch.device, *, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda

    def read(self) -> MemoryReading | None:
        """Return the current memory, or None before the first use of the device."""
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
    """Return the reader of a device's memory, or None if the memory cannot be measured.

    That is so without a GPU, and with a pluggable allocator such as RMM's, which has no counters.
    """
    if device.type != "cuda":
        return None
    if cuda.memory.get_allocator_backend() not in _ALLOCATORS_WITH_COUNTERS:
        return None
    return CudaMemory(device, cuda=cuda)


def out_of_memory_error() -> type[RuntimeError]:
    """Return torch's error for a full device, which has moved between versions of torch."""
    error: type[RuntimeError] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    return error


def resident_bytes() -> int | None:
    """Return the resident memory of this process, or None on systems without /proc.

    This takes about 10 us.
    """
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(128).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
