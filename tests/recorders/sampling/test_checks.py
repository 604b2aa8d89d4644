import dis
import sys

import pytest

from lightning_gpuprof.recorders.sampling.checks import begins, since_check

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="before 3.11 Python looks between any two instructions"
)


def loop(rows):
    total = 0
    for row in rows:
        twice = row * 2
        kept = abs(twice)
        total += kept
        total %= 7
    return total


CODE, FIRST = loop.__code__, loop.__code__.co_firstlineno


def lines_at(name):
    """Return the lines that a sample at an instruction stands for, from the function's first on."""
    at = next(one.offset for one in dis.get_instructions(CODE) if one.opname.startswith(name))
    lines, is_call = since_check(CODE, at)
    return {line - FIRST for line in lines}, is_call


def test_a_call_stands_for_what_comes_before_it_too():
    assert lines_at("CALL") == ({1, 2, 3, 4}, True)


def test_a_loops_turn_stands_for_what_follows_the_last_call_in_it():
    assert lines_at("JUMP_BACKWARD") == ({4, 5, 6}, False)


def test_a_loop_without_calls_stands_for_its_own_lines_alone():
    def plain(rows):
        for row in rows:
            row += 1
            row *= 2

    code = plain.__code__
    turn = next(one for one in dis.get_instructions(code) if one.opname.startswith("JUMP_BACKWARD"))
    lines, _ = since_check(code, turn.offset)
    assert {line - code.co_firstlineno for line in lines} == {1, 2, 3}


def test_a_function_that_only_begins_is_known():
    begun = next(one.offset for one in dis.get_instructions(CODE) if one.opname == "RESUME")
    assert begins(CODE, begun)
    assert not begins(CODE, begun + 2)
    assert not begins(CODE, -1)
