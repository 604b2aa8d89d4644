"""What dynamo's counters tell of compilations."""

from types import SimpleNamespace

import pytest

from lightning_gpuprof.adapters.dynamo import CompileWatch


@pytest.fixture
def dynamo(monkeypatch):
    """Stand in for `torch._dynamo.utils`."""
    import sys

    fake = SimpleNamespace(counters={"frames": {"total": 1}}, cumulative_time_spent_ns={})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", fake)
    return fake


def test_what_was_compiled_before_is_no_news(dynamo):
    dynamo.cumulative_time_spent_ns["entire_frame_compile"] = 500
    watch = CompileWatch()
    assert not watch.compiled_since()
    assert watch.took_ns() == 0


def test_forward_and_backward_are_timed_from_one_look_to_the_next(dynamo):
    watch, times = CompileWatch(), dynamo.cumulative_time_spent_ns
    dynamo.counters["frames"]["total"] = 2
    times |= {"entire_frame_compile": 700, "backend_compile": 600}
    assert watch.compiled_since()
    assert watch.took_ns() == 700
    times |= {"entire_frame_compile": 900, "entire_backward_compile": 50}
    assert watch.took_ns() == 250
    assert not watch.compiled_since()


def test_a_reset_of_dynamo_begins_anew(dynamo):
    watch, times = CompileWatch(), dynamo.cumulative_time_spent_ns
    times["entire_frame_compile"] = 900
    watch.took_ns()
    times.clear()
    times["entire_frame_compile"] = 40
    assert watch.took_ns() == 40


def test_an_older_dynamo_does_not_say(dynamo):
    del dynamo.cumulative_time_spent_ns
    assert CompileWatch().took_ns() is None
