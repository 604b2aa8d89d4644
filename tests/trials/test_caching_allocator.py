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


def test_small_requests_share_a_segment_of_two_mib():
    pool = CachingAllocator()
    for _ in range(4096):
        pool.allocate(512)
    assert pool.reserved_bytes == pool.allocated_bytes == 2 * MIB
    pool.allocate(1)
    assert pool.reserved_bytes == 4 * MIB


def test_a_medium_request_takes_twenty_mib_and_leaves_the_rest_for_others():
    pool = CachingAllocator()
    pool.allocate(3 * MIB)
    assert pool.reserved_bytes == 20 * MIB
    pool.allocate(15 * MIB)
    assert (pool.allocated_bytes, pool.reserved_bytes) == (18 * MIB, 20 * MIB)


def test_a_large_request_is_rounded_to_two_mib_and_not_split_for_a_small_rest():
    pool = CachingAllocator()
    first = pool.allocate(11 * MIB)
    assert pool.reserved_bytes == 12 * MIB
    # A rest of 1 MiB or less stays part of the block: it is counted as allocated.
    assert pool.allocated_bytes == 12 * MIB
    pool.free(first)
    pool.allocate(12 * MIB)
    assert pool.reserved_bytes == 12 * MIB


def test_freed_neighbours_are_merged_and_reused():
    pool = CachingAllocator()
    handles = [pool.allocate(6 * MIB) for _ in range(3)]
    assert pool.reserved_bytes == 20 * MIB
    pool.free(handles[0])
    pool.free(handles[2])
    pool.free(handles[1])
    pool.allocate(20 * MIB)
    assert pool.reserved_bytes == 20 * MIB


def test_the_smallest_free_block_that_fits_is_taken():
    pool = CachingAllocator()
    large, small = pool.allocate(40 * MIB), pool.allocate(14 * MIB)
    pool.free(large)
    pool.free(small)
    pool.allocate(13 * MIB)
    pool.allocate(40 * MIB)
    assert pool.reserved_bytes == 54 * MIB


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
