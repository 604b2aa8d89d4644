"""Loops that read value after value off the device: their turns, and nothing that lies between."""

import pytest

from lightning_gpuprof.analysis.trace.read_loops import ReadLoops, read_loops

US = 1_000


@pytest.fixture
def found(linked):
    return lambda events: read_loops(*linked(events))


@pytest.fixture
def loop(op, launched):
    """Return turns of 36 us: a sum and its kernel, and a read that waits for 6 us."""

    def make(turns, *, at=0, first=1, name="aten::sum"):
        events = []
        for turn in range(turns):
            begin = at + 36 * turn
            events += [op(name, begin, 15), op("aten::_local_scalar_dense", begin + 20, 12)]
            events += [op("cudaStreamSynchronize", begin + 25, 6, cat="cuda_runtime")]
            events += launched(first + turn, begin + 5, begin + 9, 2)
        return events

    return make


def test_turns_are_timed_from_read_to_read_with_their_launches_and_waits(found, loop):
    # Each has a read with its wait, a sum and its launch.
    assert found(loop(20)) == ReadLoops(
        read_count=20, total_ns=19 * 36 * US, event_count=19 * 4, waited_ns=19 * 6 * US
    )


def test_a_few_reads_are_no_loop(found, loop):
    assert found(loop(10)) == ReadLoops(0, 0, 0, 0)


def test_what_lies_between_the_loops_of_two_steps_is_in_neither(found, loop, op):
    # A hundred operators, each as short as a loop's: by their length they might be a turn.
    between = [op("aten::mm", 1_000 + 9 * i, 8) for i in range(100)]
    twice = found([*loop(20), *between, *loop(20, at=2_000, first=101)])
    assert twice == ReadLoops(40, 2 * 19 * 36 * US, 2 * 19 * 4, 2 * 19 * 6 * US)


def test_waits_outside_the_reads_are_not_theirs(found, loop, op):
    # The profiler's own at its end, and one a turn has beside its read.
    own = op("cudaDeviceSynchronize", 36 * 20 + 5, 900, cat="cuda_runtime")
    assert found([*loop(20), own]).waited_ns == 19 * 6 * US
    beside = [
        op("cudaEventSynchronize", 36 * turn + 17, 2, cat="cuda_runtime") for turn in range(20)
    ]
    assert found([*loop(20), *beside]).waited_ns == 19 * 6 * US


def test_turns_wait_for_no_longer_than_they_take(found, loop, op):
    # The driver's calls inside the runtime's.
    inside = [
        op(name, 36 * turn + 25, 6, cat="cuda_driver")
        for turn in range(20)
        for name in [f"cuStreamSynchronize_v{version}" for version in range(8)]
    ]
    of_all = found([*loop(20), *inside])
    assert of_all.waited_ns == of_all.total_ns == 19 * 36 * US


def test_a_read_in_each_of_many_short_steps_is_no_loop(found, loop, op):
    marks = [op(f"ProfilerStep#{i}", 36 * i, 36, cat="user_annotation") for i in range(20)]
    assert found([*loop(20), *marks]) == ReadLoops(0, 0, 0, 0)
    marks = [op(f"ProfilerStep#{i}", 720 * i, 720, cat="user_annotation") for i in range(2)]
    assert found([*loop(40), *marks]).read_count == 40
    assert found([*loop(40), *marks]).total_ns == 2 * 19 * 36 * US


def test_turns_that_work_or_wait_for_long_are_no_loops_cost(found, op, launched):
    events = []
    for turn in range(20):
        begin = 200 * turn
        events += [op("aten::_local_scalar_dense", begin, 150)]
        events += launched(turn + 1, begin + 155, begin + 160, 30)
    assert found(events) == ReadLoops(0, 0, 0, 0)


def test_on_a_cpu_no_read_waits(found, op):
    assert found([op("aten::_local_scalar_dense", 10 * i, 5) for i in range(30)]) is None
