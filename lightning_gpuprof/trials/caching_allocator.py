"""Simulates torch's CUDA caching allocator for a sequence of allocations, without torch.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` with a single stream and the default
settings, without expandable segments. `PYTORCH_CUDA_ALLOC_CONF` can change these settings. HIP has
the same rules.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

MIN_BLOCK_BYTES = 512
SMALL_BYTES = 2**20
"""Requests up to this size are served from the small pool."""
SMALL_SEGMENT_BYTES = 2 * 2**20
LARGE_SEGMENT_BYTES = 20 * 2**20
MIN_LARGE_BYTES = 10 * 2**20
"""Requests from this size on get a segment of their own size."""
ROUND_LARGE_BYTES = 2 * 2**20
_CAPACITY_STEPS = 200


def block_bytes(requested: int) -> int:
    """Return the size that a request is rounded up to."""
    return max(MIN_BLOCK_BYTES, -(-requested // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES)


def segment_bytes(rounded: int) -> int:
    """Return the size of the segment that is allocated on the device if no free block fits."""
    if rounded <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-rounded // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


@dataclass(eq=False)
class PoolBlock:
    """A part of a segment, in use or free, with its neighbours in the segment."""

    address: int
    size: int
    small: bool
    free: bool = True
    previous: "PoolBlock | None" = None
    next: "PoolBlock | None" = None


class CachingAllocator:
    """Counts allocated and reserved bytes as torch would, and the peak of the reserved bytes.

    If a new segment does not fit into the capacity, the allocator releases all segments that are
    wholly free and tries again, as torch does.

    >>> pool = CachingAllocator()
    >>> pool.free(pool.allocate(3000))
    >>> pool.allocated_bytes, pool.reserved_bytes
    (0, 2097152)
    """

    def __init__(self, capacity_bytes: float = inf) -> None:
        self.capacity_bytes = capacity_bytes
        self.allocated_bytes = self.reserved_bytes = self.peak_reserved_bytes = 0
        # The free blocks of both pools, sorted by size and address. The first block that is large
        # enough is the best fit.
        self._free: dict[bool, list[tuple[int, int, PoolBlock]]] = {True: [], False: []}
        self._next_address = 0

    def allocate(self, requested: int) -> PoolBlock:
        """Return a block that is now in use, or raise `MemoryError`."""
        size = block_bytes(requested)
        small = size <= SMALL_BYTES
        free = self._free[small]
        index = bisect_left(free, (size, 0))
        block = free.pop(index)[2] if index < len(free) else self._new_segment(size, small=small)
        self._split(block, size)
        block.free = False
        self.allocated_bytes += block.size
        return block

    def free(self, block: PoolBlock) -> None:
        """Return a block to its pool and merge it with free neighbours."""
        self.allocated_bytes -= block.size
        block.free = True
        for neighbour in (block.previous, block.next):
            if neighbour is not None and neighbour.free:
                pool = self._free[neighbour.small]
                del pool[bisect_left(pool, (neighbour.size, neighbour.address))]
                if block.address < neighbour.address:
                    block = _merge(block, neighbour)
                else:
                    block = _merge(neighbour, block)
        self._add(block)

    def _add(self, block: PoolBlock) -> None:
        insort(self._free[block.small], (block.size, block.address, block))

    def _new_segment(self, size: int, *, small: bool) -> PoolBlock:
        segment = segment_bytes(size)
        if self.reserved_bytes + segment > self.capacity_bytes:
            self._release_cached()
            if self.reserved_bytes + segment > self.capacity_bytes:
                raise MemoryError(f"{segment} bytes on top of {self.reserved_bytes} reserved")
        block = PoolBlock(self._next_address, segment, small)
        self._next_address += segment
        self.reserved_bytes += segment
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return block

    def _release_cached(self) -> None:
        """Release every segment that is wholly free."""
        for pool in self._free.values():
            parts_of_segments = []
            for size, address, block in pool:
                if block.previous or block.next:
                    parts_of_segments.append((size, address, block))
                else:
                    self.reserved_bytes -= size
            pool[:] = parts_of_segments

    def _split(self, block: PoolBlock, size: int) -> None:
        rest = block.size - size
        if rest >= MIN_BLOCK_BYTES if block.small else rest > SMALL_BYTES:
            tail = PoolBlock(
                block.address + size, rest, block.small, previous=block, next=block.next
            )
            if block.next is not None:
                block.next.previous = tail
            block.next = tail
            block.size = size
            self._add(tail)


def _merge(low: PoolBlock, high: PoolBlock) -> PoolBlock:
    """Return two neighbours as a single block."""
    low.size += high.size
    low.next = high.next
    if high.next is not None:
        high.next.previous = low
    return low


@dataclass(frozen=True)
class Footprint:
    """The peaks of a replayed sequence of allocations, in bytes."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_index: int
    """The index of the event after which the allocated bytes were highest."""


def replay(events: Iterable[tuple[int, int]], *, capacity_bytes: float = inf) -> Footprint:
    """Replay events, which are pairs (block id, bytes). A negative size frees the block."""
    pool = CachingAllocator(capacity_bytes)
    in_use: dict[int, PoolBlock] = {}
    peak, peak_index = 0, 0
    for index, (block_id, size) in enumerate(events):
        if size < 0:
            pool.free(in_use.pop(block_id))
        elif size:
            in_use[block_id] = pool.allocate(size)
            if pool.allocated_bytes > peak:
                peak, peak_index = pool.allocated_bytes, index
    return Footprint(peak, pool.peak_reserved_bytes, peak_index)


def least_capacity(events: Sequence[tuple[int, int]], whole: Footprint) -> int:
    """Return the least capacity with which events succeed, to half a percent.

    `whole` is the footprint of the events without a capacity.
    """
    low, high = whole.peak_allocated_bytes - 1, whole.peak_reserved_bytes
    while high - low > max(1, high // _CAPACITY_STEPS):
        middle = (low + high) // 2
        try:
            replay(events, capacity_bytes=middle)
        except MemoryError:
            low = middle
        else:
            high = middle
    return high
