"""Which calls of a trace are a loop's: short ones, the same ones again and again."""

import pytest

from lightning_gpuprof.analysis.trace.short_calls import ShortCalls, short_calls

US = 1_000


@pytest.fixture
def found(linked):
    return lambda events: short_calls(*linked(events))


@pytest.fixture
def loop(op):
    """Return turns of a loop: a product of 4 us with its view inside, 2 us between turns."""

    def make(turns, *, at=0, name="aten::mul", each=6, dur=4):
        starts = [at + each * turn for turn in range(turns)]
        views = [op("aten::select", start + 1, 1) for start in starts]
        return [op(name, start, dur) for start in starts] + views

    return make


def test_a_loops_calls_are_timed_with_what_lies_between_them(found, loop):
    # 20 turns of 4 us and 19 gaps; of the two operators in each one computes something.
    assert found(loop(20)) == ShortCalls(
        total_ns=118 * US, event_count=40, call_count=20, node_ns=0
    )


def test_a_loops_nodes_are_told_apart(found, loop):
    nodes = loop(20, at=200, name="autograd::engine::evaluate_function: MulBackward0")
    calls = found([*loop(20), *nodes])
    # What is between forward and backward is none of it.
    assert (calls.total_ns, calls.node_ns) == (236 * US, 118 * US)


def test_a_few_calls_are_no_loop(found, loop):
    assert found(loop(9)) == ShortCalls(0, 0, 0, 0)


def test_what_a_model_does_before_and_after_a_loop_is_none_of_it(found, loop, op):
    around = [op("aten::mean", -12, 5), op("aten::square", 121, 5), op("aten::mm", 500, 400)]
    assert found([*loop(20), *around]).total_ns == 118 * US


def test_a_longer_call_divides_a_loop(found, loop, op):
    parts = [*loop(12), op("aten::mm", 80, 60), *loop(8, at=150)]
    assert found(parts).call_count == 12


def test_python_between_calls_is_none_of_dispatching_them(found, loop):
    assert found(loop(20, each=200)).call_count == 0


def test_calls_longer_than_dispatching_are_not_short(found, loop):
    # 25 us for two events.
    assert found(loop(20, each=40, dur=25)).call_count == 0


def test_making_batches_and_updating_weights_is_not_the_models_work(found, loop, op):
    fetch = op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", -1, 130)
    step = op("Optimizer.step#AdamW.step", 999, 130, cat="user_annotation")
    assert found([fetch, *loop(20)]).call_count == 0
    assert found([step, *loop(20, at=1_000)]).call_count == 0


def test_a_devices_trace_is_told_by_its_device(found, loop, launched):
    assert found([*loop(20), *launched(1, 200, 300, 50)]) is None
