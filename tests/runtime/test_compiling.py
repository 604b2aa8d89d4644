"""Graph breaks and recompilations, with their reasons and lines."""

import sys
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CompileEvent
from lightning_gpuprof.runtime.compiling import CompileRecords, compile_events


@pytest.fixture
def dynamo(monkeypatch):
    """Stand in for `torch._dynamo.utils`."""
    fake = SimpleNamespace(
        counters={"frames": {"total": 1}}, graph_break_reasons=[], guard_failures={}
    )
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", fake)
    return fake


def broken(reason, *lines):
    stack = [SimpleNamespace(filename=file, lineno=line, name="f") for file, line in lines]
    return SimpleNamespace(reason=reason, user_stack=stack)


REASON = "Unsupported call\n  Explanation: print is not traced.\n  Hint: leave it out.\n"


def test_a_break_is_at_the_innermost_line_of_the_users_own_with_its_reason_and_hint(dynamo):
    one = broken(REASON, ("a.py", 3), ("b.py", 7), (torch.__file__, 1))
    dynamo.graph_break_reasons += [one, one]
    (event,) = compile_events()
    assert (event.reason, event.hint) == ("Unsupported call", "leave it out.")
    assert event.what == "graph break"
    assert (event.place.file, event.place.line) == ("b.py", 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0/1: tensor 'x' size mismatch at index 0", "tensor 'x' size mismatch at index 0"),
        ("2/0: L['n'] == 3  # y = x * n  # t.py:4 in f", "L['n'] == 3"),
    ],
)
def test_a_recompilation_is_at_its_function(dynamo, text, reason):
    code = test_a_recompilation_is_at_its_function.__code__
    dynamo.guard_failures[code] = [text, text.replace("0/1", "0/2")]
    (event,) = compile_events()
    assert (event.what, event.reason) == ("recompilation", reason)
    assert event.place.line == code.co_firstlineno


def test_a_run_gets_what_is_new_in_it_once(dynamo):
    dynamo.graph_break_reasons.append(broken("before", ("a.py", 1)))
    written = []
    notes = CompileRecords(SimpleNamespace(write=written.append), lambda: 3)
    dynamo.graph_break_reasons.append(broken("in it", ("a.py", 2)))
    for total in (1, 2, 3):
        dynamo.counters["frames"]["total"] = total
        notes.write_new()
    assert [(type(one), one.reason) for one in written] == [(CompileEvent, "in it")]


def test_forward_and_backward_are_timed_from_one_look_to_the_next_also_after_a_reset(dynamo):
    dynamo.cumulative_time_spent_ns = times = {"entire_frame_compile": 500}
    written = []
    notes = CompileRecords(SimpleNamespace(write=written.append), lambda: 3)
    notes.write_new()
    assert written == []
    for spent in (
        {"entire_frame_compile": 1_200, "backend_compile": 600},
        {"entire_frame_compile": 1_400, "entire_backward_compile": 50},
        {"entire_frame_compile": 30, "entire_backward_compile": 0},
    ):
        times |= spent
        dynamo.counters["frames"]["total"] += 1
        notes.write_new()
    assert written == [CompileTime(3, took) for took in (700, 250, 30)]
