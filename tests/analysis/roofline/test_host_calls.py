"""What operators take on the CPU, by their arguments, over the marked steps."""

import pytest

from lightning_gpuprof.analysis.trace_analysis import analyze_file

FLOATS = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"]}
NODE = "autograd::engine::evaluate_function: MmBackward0"


@pytest.fixture
def calls(write_trace, op, step, launched):
    def analysed(*durations, other=(), device=False):
        """Analyse steps of 1 ms, each with calls of `mm` of these durations in us."""
        events = [step(number, 1_000 * number, 1_000) for number in range(len(durations))]
        for number, in_step in enumerate(durations):
            at = 1_000 * number
            for duration in in_step:
                events.append(op(ts=at, dur=duration, **FLOATS))
                at += duration
        events += [op(name, ts, dur, **(arguments or FLOATS)) for name, ts, dur, arguments in other]
        if device:
            events += launched(1, 10, 20, 30)
        return analyze_file(write_trace(events)).host_calls

    return analysed


def test_calls_with_the_same_arguments_are_a_row_with_their_cost(calls):
    (row,) = calls((200, 100), (150, 300), (400, 120))
    assert (row.call.name, row.count, row.total_ns) == ("aten::mm", 6, 1_270_000)
    # The first call of a step takes 150 us at least, the second one 100 us.
    assert row.fastest_ns == 125_000
    assert row.spread == pytest.approx((400 / 150 + 300 / 100) / 2)
    assert (row.flop_count, row.phase) == (2 * 4 * 8 * 2, "forward")


def test_places_of_the_step_that_are_always_slow_are_a_row_of_their_own(calls):
    # The slow call at the second place of the first step is an accident.
    slow, fast = calls((200, 300, 20), (210, 20, 20), (190, 25, 30))
    assert (slow.count, slow.fastest_ns) == (3, 190_000)
    assert (fast.count, fast.fastest_ns) == (6, 20_000)


def test_of_a_single_step_no_spread_is_known(calls):
    (row,) = calls((500,))
    assert row.spread is None


def test_the_outermost_operator_of_known_cost_counts(calls):
    inside = ("aten::add", 10, 50, {"Input Dims": [[4], [4]], "Input type": ["float", "float"]})
    assert [row.call.name for row in calls((100,), other=[inside])] == ["aten::mm"]


def test_calls_outside_of_steps_and_short_ones_are_left_out(calls):
    assert not calls((5,), other=[("aten::mm", 2_000, 900, None)])


def test_operators_are_in_the_phase_of_what_is_around_them(calls):
    around = [
        (NODE, 400, 100, {}),
        ("aten::mm", 410, 80, None),
        ("Optimizer.step#SGD.step", 600, 100, {}),
        ("aten::mm", 610, 80, None),
        ("enumerate(DataLoader)#x.__next__", 800, 100, {}),
        ("aten::mm", 810, 80, None),
    ]
    rows = calls((100,), other=[(*event[:3], event[3] or FLOATS) for event in around])
    assert {row.phase for row in rows} == {"forward", "backward", "optimizer_step", "data_wait"}


def test_a_trace_with_a_device_or_without_steps_or_shapes_has_no_such_calls(
    calls, write_trace, op, step
):
    assert not calls((500,), device=True)
    assert not analyze_file(write_trace([op(**FLOATS)])).host_calls
    assert not analyze_file(write_trace([step(0, 0, 100), op(ts=1)])).host_calls


def test_calls_that_differ_in_floats_alone_are_alike(calls):
    def scaled(ts, value):
        arguments = {"Input Dims": [[4], [4], []], "Input type": ["float", "float", "Scalar"]}
        return ("aten::add", ts, 100, {**arguments, "Concrete Inputs": ["", "", value]})

    rows = calls((1,), (1,), other=[scaled(100, "-0.5"), scaled(1_100, "-0.25"), scaled(300, "2")])
    assert [row.count for row in rows if row.call.name == "aten::add"] == [2, 1]
