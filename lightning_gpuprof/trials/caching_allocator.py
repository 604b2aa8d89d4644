"""Simulates torch's CUDA caching allocator for a sequence of allocations; loads no torch.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` with its default settings, one stream
and no expandable segments; `PYTORCH_CUDA_ALLOC_CONF` changes them. HIP has the same rules.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

MIN_BLOCK_BYTES = 512
SMALL_BYTES = 2**20
"""Requests up to this come from the small pool."""
SMALL_SEGMENT_BYTES = 2 * 2**20
LARGE_SEGMENT_BYTES = 20 * 2**20
MIN_LARGE_BYTES = 10 * 2**20
"""Requests from here on get a segment of their own size."""
ROUND_LARGE_BYTES = 2 * 2**20
_CAPACITY_STEPS = 200


def block_bytes(requested: int) -> int:
    """Return the size that a request is rounded up to."""
    return max(MIN_BLOCK_BYTES, -(-requested // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES)


def segment_bytes(rounded: int) -> int:
    """Return the size of the segment taken from the device when no free block fits."""
    if rounded <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-rounded // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


@dataclass(eq=False)
class Block:
    """A piece of a segment, in use or free, with its neighbours."""

    address: int
    size: int
    small: bool
    free: bool = True
    previous: "Block | None" = None
    next: "Block | None" = None


class CachingAllocator:
    """Replays allocations and keeps torch's allocated and reserved bytes, and these at their peak.

    With a capacity, a segment that does not fit makes it release its wholly free segments and try
    again, as torch does.

    >>> pool = CachingAllocator()
    >>> pool.free(pool.allocate(3000))
    >>> pool.allocated_bytes, pool.reserved_bytes
    (0, 2097152)
    """

    def __init__(self, capacity_bytes: float = inf) -> None:
        self.capacity_bytes = capacity_bytes
        self.allocated_bytes = self.reserved_bytes = self.peak_reserved_bytes = 0
        # Free blocks by size, then address: the first that is large enough fits best.
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._next_address = 0

    def allocate(self, requested: int) -> Block:
        """Take a block, which `free` gives back, or raise `MemoryError`."""
        size = block_bytes(requested)
        small = size <= SMALL_BYTES
        free = self._free[small]
        index = bisect_left(free, (size, 0))
        block = free.pop(index)[2] if index < len(free) else self._new_segment(size, small=small)
        self._split(block, size)
        block.free = False
        self.allocated_bytes += block.size
        return block

    def free(self, block: Block) -> None:
        """Give a block back to its pool, merged with free neighbours."""
        self.allocated_bytes -= block.size
        block.free = True
        for neighbour in (block.previous, block.next):
            if neighbour is not None and neighbour.free:
                same = self._free[neighbour.small]
                del same[bisect_left(same, (neighbour.size, neighbour.address))]
                block = _merge(*sorted((block, neighbour), key=lambda part: part.address))
        self._add(block)

    def _add(self, block: Block) -> None:
        insort(self._free[block.small], (block.size, block.address, block))

    def _new_segment(self, size: int, *, small: bool) -> Block:
        segment = segment_bytes(size)
        if self.reserved_bytes + segment > self.capacity_bytes:
            self._release_cached()
            if self.reserved_bytes + segment > self.capacity_bytes:
                raise MemoryError(f"{segment} bytes on top of {self.reserved_bytes} reserved")
        block = Block(self._next_address, segment, small)
        self._next_address += segment
        self.reserved_bytes += segment
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return block

    def _release_cached(self) -> None:
        """Release every segment that is wholly free."""
        for free in self._free.values():
            split = [entry for entry in free if entry[2].previous or entry[2].next]
            self.reserved_bytes -= sum(entry[0] for entry in free) - sum(e[0] for e in split)
            free[:] = split

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest >= MIN_BLOCK_BYTES if block.small else rest > SMALL_BYTES:
            tail = Block(block.address + size, rest, block.small)
            tail.previous, tail.next = block, block.next
            if block.next is not None:
                block.next.previous = tail
            block.next, block.size = tail, size
            self._add(tail)


def _merge(low: Block, high: Block) -> Block:
    low.size += high.size
    low.next = high.next
    if high.next is not None:
        high.next.previous = low
    return low


@dataclass(frozen=True)
class Footprint:
    """Peaks of one replayed sequence, in bytes."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_index: int
    """Index of the event after which allocated bytes were highest."""


def replay(events: Iterable[tuple[int, int]], *, capacity_bytes: float = inf) -> Footprint:
    """Replay `(block id, bytes)` events; a negative size frees the block of that id."""
    pool = CachingAllocator(capacity_bytes)
    used: dict[int, Block] = {}
    peak, peak_index = 0, 0
    for index, (block, size) in enumerate(events):
        if size < 0:
            pool.free(used.pop(block))
        elif size:
            used[block] = pool.allocate(size)
            if pool.allocated_bytes > peak:
                peak, peak_index = pool.allocated_bytes, index
    return Footprint(peak, pool.peak_reserved_bytes, peak_index)


def least_capacity(events: Sequence[tuple[int, int]], whole: Footprint) -> int:
    """Return the least device memory on which events of a footprint succeed, to half a percent."""
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
