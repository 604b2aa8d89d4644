"""Reads the device allocator's counters; on a device without them nothing is measured."""

import os
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch

_POOL = (0, 0)
"""The id of the pool that is no CUDA graph's."""
NATIVE, DRIVERS = "native", "cudaMallocAsync"
"""Names of torch's own allocator, and of the driver's behind torch's calls."""


@dataclass(frozen=True)
class MemoryReading:
    """Device memory in bytes, as torch names it; peaks are since the previous reading."""

    allocated_bytes: int
    reserved_bytes: int
    active_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    free_bytes: int
    total_bytes: int
    alloc_retries: int
    ooms: int


class PoolPeaks(NamedTuple):
    """Peaks since the previous reading, and what of the pool is of no use to others now."""

    allocated_bytes: int
    reserved_bytes: int
    split_bytes: int
    """Free, in segments of which a part is in use: the pool cannot give it back."""


class MemoryProbe(Protocol):
    """Where a callback reads device memory from; tests pass a fake."""

    def read(self) -> MemoryReading | None:
        """Return the memory now, and begin new peaks; None where it cannot be measured."""
        ...

    def peaks(self) -> PoolPeaks | None:
        """Return the peaks and what is split off now, and begin new peaks."""
        ...

    def graph_pools(self) -> bool:
        """Tell whether CUDA graphs hold memory of their own; slow, for once in a while."""
        ...


class CudaMemory:
    """`MemoryProbe` of a CUDA or HIP device, by torch's caching allocator.

    Reading costs a lookup of counters and one driver call, and never waits for the device. The
    counters are taken nested, as the allocator gives them: torch takes several times as long to
    flatten and sort them. Reading begins new peaks, so `torch.cuda.max_memory_allocated()` of the
    user's own then speaks of the time since the last reading.

    Args:
        device: The device.
        cuda: Stands in for `torch.cuda` in tests.
    """

    def __init__(self, device: torch.device, *, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda

    def read(self) -> MemoryReading | None:
        """Return the memory now, and begin new peaks; None before the device's first use."""
        stats = self._cuda.memory_stats_as_nested_dict(self._device)
        if not stats:
            return None
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        free, total = self._cuda.mem_get_info(self._device)
        self._cuda.reset_peak_memory_stats(self._device)
        return MemoryReading(
            allocated_bytes=allocated["current"],
            reserved_bytes=reserved["current"],
            active_bytes=stats["active_bytes"]["all"]["current"],
            peak_allocated_bytes=allocated["peak"],
            peak_reserved_bytes=reserved["peak"],
            free_bytes=free,
            total_bytes=total,
            alloc_retries=stats["num_alloc_retries"],
            ooms=stats["num_ooms"],
        )

    def peaks(self) -> PoolPeaks | None:
        """Return the peaks and what is split off now, and begin new peaks."""
        stats = self._cuda.memory_stats_as_nested_dict(self._device)
        if not stats:
            return None
        self._cuda.reset_peak_memory_stats(self._device)
        return PoolPeaks(
            stats["allocated_bytes"]["all"]["peak"],
            stats["reserved_bytes"]["all"]["peak"],
            stats["inactive_split_bytes"]["all"]["current"],
        )

    def graph_pools(self) -> bool:
        """Tell whether CUDA graphs hold memory of their own, by the pools of all segments.

        Only torch's own allocator has segments; others refuse to be asked for them.
        """
        if allocator_backend(self._cuda) != NATIVE:
            return False
        try:  # without the history, which takes seconds to put together where one is kept
            segments = self._cuda.memory_snapshot(include_traces=False)
        except TypeError:  # older torch
            segments = self._cuda.memory_snapshot()
        pools = {tuple(segment.get("segment_pool_id", _POOL)) for segment in segments}
        return bool(pools - {_POOL})


def allocator_backend(cuda: Any = torch.cuda) -> str:
    """Return the name of the device's allocator: torch's own, the driver's or somebody's."""
    return str(cuda.memory.get_allocator_backend())


def memory_probe(device: torch.device, *, cuda: Any = torch.cuda) -> MemoryProbe | None:
    """Return the probe of a device, or None where its memory cannot be measured.

    An allocator that somebody plugged in, such as RMM's, has no counters.

    >>> memory_probe(torch.device("cpu")) is None
    True
    """
    counts = device.type == "cuda" and allocator_backend(cuda) in (NATIVE, DRIVERS)
    return CudaMemory(device, cuda=cuda) if counts else None


class ProcessMemory:
    """Reads this process's resident memory, in about a microsecond; None where there is no /proc.

    >>> memory = ProcessMemory()
    >>> (memory.read() or 1) > 0
    True
    >>> memory.close()
    """

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:
            self._file = None

    def read(self) -> int | None:
        """Return the bytes, or None where they are not to be had."""
        if self._file is None:
            return None
        return int(os.pread(self._file, 128, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
