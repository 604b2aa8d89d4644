import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_gpuprof.trials.caching_allocator import (
    CachingAllocator,
    block_bytes,
    least_capacity,
    replay,
)

MIB = 2**20
SIZES = st.integers(min_value=1, max_value=40 * MIB)


SMALL = [(number, 512) for number in range(4096)]


@pytest.mark.parametrize(
    ("events", "allocated", "reserved"),
    [
        # Small requests share a segment of 2 MiB.
        (SMALL, 2, 2),
        ([*SMALL, (-1, 1)], 2 + 512 / MIB, 4),
        # A medium one takes 20 MiB and leaves the rest for others.
        ([(0, 3 * MIB)], 3, 20),
        ([(0, 3 * MIB), (1, 15 * MIB)], 18, 20),
        # A large one is rounded to 2 MiB. A rest of 1 MiB or less stays part of the block: it is
        # counted as allocated.
        ([(0, 11 * MIB)], 12, 12),
        ([(0, 11 * MIB), (0, -1), (1, 12 * MIB)], 12, 12),
        # Freed neighbours are merged and reused.
        ([*((i, 6 * MIB) for i in range(3)), (0, -1), (2, -1), (1, -1), (3, 20 * MIB)], 20, 20),
        # The smallest free block that fits is taken.
        ([(0, 40 * MIB), (1, 14 * MIB), (0, -1), (1, -1), (2, 13 * MIB), (3, 40 * MIB)], 54, 54),
    ],
)
def test_the_pool_gives_and_takes_segments_as_torchs_does(events, allocated, reserved):
    found = replay(events)
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes) == (
        allocated * MIB,
        reserved * MIB,
    )


def test_a_full_device_gets_free_segments_back_before_it_gives_up():
    pool = CachingAllocator(capacity_bytes=50 * MIB)
    first, kept = pool.allocate(30 * MIB), pool.allocate(12 * MIB)
    pool.free(first)
    pool.allocate(36 * MIB)
    assert pool.reserved_bytes == 48 * MIB
    pool.free(kept)
    pool.allocate(2 * MIB)
    with pytest.raises(MemoryError):
        pool.allocate(11 * MIB)
    assert pool.reserved_bytes == 48 * MIB


def test_the_least_capacity_holds_what_a_segment_in_use_keeps():
    # The second block lies in the first one's segment, whose rest cannot be given back.
    events = [(0, 60 * MIB), (0, -1), (1, 12 * MIB), (2, 50 * MIB)]
    whole = replay(events)
    assert (whole.peak_allocated_bytes, whole.peak_reserved_bytes) == (62 * MIB, 110 * MIB)
    assert least_capacity(events, whole) == 110 * MIB
    with pytest.raises(MemoryError):
        replay(events, capacity_bytes=109 * MIB)


def test_a_replay_tells_where_the_peak_was():
    footprint = replay([(0, 1000), (1, 512), (0, -1), (2, 512), (3, 0)])
    assert footprint.peak_allocated_bytes == 1536
    assert footprint.peak_index == 1


@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=60))
def test_what_is_freed_comes_back_and_reserved_never_falls_short(requests: list[tuple[int, bool]]):
    pool = CachingAllocator()
    held = []
    for size, keep in requests:
        handle = pool.allocate(size)
        assert pool.reserved_bytes >= pool.allocated_bytes >= block_bytes(size)
        if keep:
            held.append(handle)
        else:
            pool.free(handle)
    for handle in held:
        pool.free(handle)
    assert pool.allocated_bytes == 0
    # Everything merged back: all of it can be taken again without a new segment.
    again = CachingAllocator()
    assert pool.peak_reserved_bytes == pool.reserved_bytes >= again.reserved_bytes


def test_a_real_training_step_replayed_needs_no_more_than_the_real_allocator_held(shared_traces):
    path = shared_traces / "memory" / "06f51ae4__memory_snapshot.pickle"
    snapshot = pickle.loads(path.read_bytes())
    events = snapshot["device_traces"][0]
    end = sum(segment["allocated_size"] for segment in snapshot["segments"])
    live, running, lowest = {}, 0, 0
    steps = []
    for number, event in enumerate(events):
        if event["action"] == "alloc":
            live[event["addr"]] = number
            steps.append((number, event["size"]))
            running += block_bytes(event["size"])
        elif event["action"] == "free_completed" and event["addr"] in live:
            steps.append((live.pop(event["addr"]), -1))
            running -= block_bytes(event["size"])
        lowest = min(lowest, running)
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    # What was there before the window is one block; the step itself is replayed in full.
    before = end - running
    footprint = replay([(-1, before), *steps])
    assert footprint.peak_reserved_bytes <= reserved
    assert footprint.peak_allocated_bytes <= reserved
