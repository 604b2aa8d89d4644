"""Calls of dispatch modes: what they take beside the operators that they are told of."""

import pytest

from lightning_gpuprof.analysis.trace.mode_calls import MODE, ModeCalls, mode_calls

US = 1_000


@pytest.fixture
def found(linked):
    return lambda events: mode_calls(linked(events)[0])


def test_a_call_takes_what_is_outside_its_operator(found, op):
    events = [op(MODE, 0, 30), op("aten::mm", 10, 12), op(MODE, 100, 20), op("aten::add", 105, 5)]
    assert found(events) == ModeCalls(2, (18 + 15) * US, 0, 0)


def test_operators_that_a_mode_calls_for_itself_are_beside_the_first_or_the_longest(found, op):
    events = [op(MODE, 0, 50), op("aten::add", 5, 5), op("aten::isfinite", 15, 20)]
    assert found(events) == ModeCalls(1, 25 * US, 5 * US, 20 * US)


def test_a_mode_inside_of_another_has_a_call_of_its_own(found, op):
    events = [op(MODE, 0, 50), op(MODE, 10, 30), op("aten::add", 20, 10)]
    assert found(events) == ModeCalls(2, (20 + 20) * US, 0, 0)


def test_without_a_mode_there_is_nothing_to_sum_up(found, op):
    assert found([op("aten::mm", 0, 10)]) is None
