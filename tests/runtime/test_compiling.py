"""Graph breaks and recompilations, with their reasons and lines."""

import sys
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CompileEvent, GuardCause, Recompilation
from lightning_gpuprof.runtime.compiling import (
    CompileRecords,
    all_graph_breaks,
    all_recompilations,
)


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
    (event,) = all_graph_breaks()
    assert (event.reason, event.hint) == ("Unsupported call", "leave it out.")
    assert event.what == "graph break"
    assert (event.place.file, event.place.line) == ("b.py", 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0/1: tensor 'x' size mismatch at index 0", "tensor 'x' size mismatch at index 0"),
        ("2/0: L['n'] == 3  # y = x * n  # t.py:4 in f", "n == 3"),
    ],
)
def test_a_recompilation_is_at_its_function(dynamo, text, reason):
    code = test_a_recompilation_is_at_its_function.__code__
    dynamo.guard_failures[code] = [text, text.replace("0/1", "0/2")]
    (again,) = all_recompilations()
    assert again.reason == reason
    assert again.function.line == code.co_firstlineno


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


class Untouched(list):
    """A list that may be counted and indexed, but not read as a whole."""

    def __iter__(self):
        raise AssertionError("dynamo lists a reason for every pair of compilations")


def test_what_was_read_before_is_not_read_again(dynamo):
    code = test_what_was_read_before_is_not_read_again.__code__
    dynamo.guard_failures[code] = reasons = Untouched()
    written = []
    notes = CompileRecords(SimpleNamespace(write=written.append), lambda: 3)
    for count in (1, 2, 3):
        for version in range(count):
            list.append(reasons, f"0/{version}: n == {count}")
        dynamo.counters["frames"]["total"] += 1
        notes.write_new()
    assert [(type(again), again.reason) for again in written] == [
        (Recompilation, "n == 1"),
        (Recompilation, "n == 2"),
        (Recompilation, "n == 3"),
    ]


def test_a_recompilation_is_recorded_with_its_step_cause_and_time(tmp_path):
    torch._dynamo.reset()
    written = []
    notes = CompileRecords(SimpleNamespace(write=written.append), lambda: 3)
    scaled = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False)
    for n in (2, 3):
        scaled(torch.ones(1), n)
        notes.write_new()
    torch._dynamo.reset()
    first, second, again = written
    assert (type(first), type(second)) == (CompileTime, CompileTime)
    assert (again.step, again.cause, again.subject, again.value) == (3, GuardCause.NUMBER, "n", "2")
    assert again.function.function == "<lambda>"
    assert "scaled" in again.function.source
    assert 0 < again.took_ns <= second.took_ns
