"""What a device still had queued when a trace began."""

import pytest


@pytest.fixture
def queued(launched):
    """Make a kernel whose launch came before the trace; times in us."""

    def make(correlation, ts, dur, **where):
        return launched(correlation, 0, ts, dur, **where)[1:]

    return make


def test_what_the_device_still_had_queued_is_no_part_of_the_marked_steps(
    analysed, step, launched, queued
):
    # The device is two steps behind: it runs those of the warm-up while two are marked.
    events = [
        step(3, 100, 10),
        step(4, 110, 10),
        *queued(1, 100, 40),
        *queued(2, 140, 40),
        *launched(3, 101, 180, 40),
        *launched(4, 111, 220, 40),
        *queued(9, 230, 5, name="lost its launch"),
        *queued(8, 90, 7, stream=20, name="of a stream without launches"),
    ]

    found = analysed(*events)

    by_name = {row.name: row.count for row in found.kernels}
    assert by_name == {
        "ampere_sgemm_128x64_nn": 2,
        "lost its launch": 1,
        "of a stream without launches": 1,
    }
    assert found.quality.orphan_kernels == 4
    # From 180 us on, when what was queued has run.
    assert (found.gpu.span_ns, found.gpu.busy_ns) == (80_000, 80_000)


def test_a_queue_that_lost_most_launches_does_not_cut_the_devices_time(analysed, step, launched):
    events = [step(3, 0, 100), step(4, 100, 100)]
    for turn in range(10):
        at = 20 * turn
        events += launched(1 + turn, at, at + 2, 10)
        lost = launched(100 + turn, at + 1, at + 12, 5, stream=20)
        events += lost if turn == 9 else lost[1:]

    device = analysed(*events).gpu

    assert (device.span_ns, device.busy_ns) == (200_000, 150_000)
    assert device.first_to_last.span_ns == 195_000


def test_copies_that_another_queue_makes_ahead_do_not_end_what_was_queued(
    analysed, step, launched, queued
):
    events = [
        step(3, 100, 10),
        step(4, 110, 10),
        *launched(1, 100, 101, 5, stream=20),
        *queued(2, 95, 40),
        *queued(3, 135, 45),
        *launched(4, 101, 180, 40),
        *launched(5, 111, 220, 40),
    ]

    found = analysed(*events)

    assert (sum(row.count for row in found.kernels), found.gpu.span_ns) == (3, 80_000)
