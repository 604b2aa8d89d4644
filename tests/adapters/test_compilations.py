"""What dynamo's counters tell of compilations."""

from types import SimpleNamespace

import pytest

from lightning_gpuprof.adapters.dynamo import Compilations


@pytest.fixture
def dynamo(monkeypatch):
    """Stand in for `torch._dynamo.utils`."""
    import sys

    fake = SimpleNamespace(counters={"frames": {"total": 1}}, cumulative_time_spent_ns={})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", fake)
    return fake


def test_what_was_compiled_before_is_no_news(dynamo):
    dynamo.cumulative_time_spent_ns["entire_frame_compile"] = 500
    compilations = Compilations()
    assert not compilations.compiled_since()
    assert compilations.took_ns() == 0


def test_forward_and_backward_are_timed_from_one_look_to_the_next(dynamo):
    compilations, times = Compilations(), dynamo.cumulative_time_spent_ns
    dynamo.counters["frames"]["total"] = 2
    times |= {"entire_frame_compile": 700, "backend_compile": 600}
    assert compilations.compiled_since()
    assert compilations.took_ns() == 700
    times |= {"entire_frame_compile": 900, "entire_backward_compile": 50}
    assert compilations.took_ns() == 250
    assert not compilations.compiled_since()


def test_a_reset_of_dynamo_begins_anew(dynamo):
    compilations, times = Compilations(), dynamo.cumulative_time_spent_ns
    times["entire_frame_compile"] = 900
    compilations.took_ns()
    times.clear()
    times["entire_frame_compile"] = 40
    assert compilations.took_ns() == 40


def test_an_older_dynamo_does_not_say(dynamo):
    del dynamo.cumulative_time_spent_ns
    assert Compilations().took_ns() is None
