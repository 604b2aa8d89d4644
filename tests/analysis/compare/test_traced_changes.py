"""What a few profiled steps show of operators and kernels."""

import pytest

from lightning_gpuprof.analysis.compare.bootstrap import Certainty
from lightning_gpuprof.analysis.compare.compare import compare

MS = 1_000_000
SURE, TOO_FEW = Certainty.SURE, Certainty.TOO_FEW


def operator(self_ms, count=4, name="aten::mm"):
    return {"name": name, "count": count, "total_ns": self_ms * MS, "self_ns": self_ms * MS}


def kernel(total_ms, lowest_ms, highest_ms, count=20, name="gemm"):
    bounds = {"min_ns": lowest_ms * MS, "max_ns": highest_ms * MS}
    return {"name": name, "count": count, "total_ns": total_ms * MS, **bounds}


@pytest.fixture
def compared(analyze):
    """Compare runs whose traces have these rows in so many steps."""

    def compare_traces(base, new, *, steps=2):
        runs = [
            analyze({"forward": MS}, trace={**rows, "steps": [{}] * steps}) for rows in (base, new)
        ]
        return compare(*runs, tolerance=0.01)

    return compare_traces


def certainties(changes):
    return {change.name: change.certainty for change in changes}


def test_two_steps_do_not_show_that_an_operator_takes_longer(compared):
    base, new = ({"operators": [operator(ms)]} for ms in (40, 80))
    assert certainties(compared(base, new).operators) == {"aten::mm": TOO_FEW}
    assert certainties(compared(base, new, steps=8).operators) == {"aten::mm": None}


def test_how_often_each_step_calls_an_operator_is_no_chance(compared):
    base, new = {"operators": [operator(40, count=4)]}, {"operators": [operator(90, count=8)]}
    assert certainties(compared(base, new).operators) == {"aten::mm": SURE}
    less_of_it = {"operators": [operator(120, count=6)]}  # most of it is not of the calls
    assert certainties(compared(base, less_of_it).operators) == {"aten::mm": TOO_FEW}
    the_other_way = {"operators": [operator(30, count=8)]}
    assert certainties(compared(base, the_other_way).operators) == {"aten::mm": TOO_FEW}
    in_one_step_alone = {"operators": [operator(90, count=9)]}
    assert certainties(compared(base, in_one_step_alone).operators) == {"aten::mm": TOO_FEW}


def test_what_one_run_alone_calls_is_not_judged(compared):
    base, new = {"operators": [operator(40)]}, {"operators": [operator(40, name="aten::bmm")]}
    changes = compared(base, new).operators
    assert {change.name: (change.base, change.new) for change in changes} == {
        "aten::mm": (20 * MS, None),
        "aten::bmm": (None, 20 * MS),
    }
    assert set(certainties(changes).values()) == {None}


@pytest.mark.parametrize(
    ("row", "certainty"),
    [
        (kernel(600, lowest_ms=29, highest_ms=31), SURE),
        (kernel(200, lowest_ms=9, highest_ms=11), SURE),
        (kernel(600, lowest_ms=20, highest_ms=40), TOO_FEW),
        (kernel(330, lowest_ms=29, highest_ms=31, count=11), TOO_FEW),  # longer calls, less time
    ],
)
def test_a_kernel_differs_if_each_of_many_calls_is_longer_than_all_in_the_other_run(
    compared, row, certainty
):
    base = {"kernels": [kernel(400, lowest_ms=19, highest_ms=21)]}
    assert certainties(compared(base, {"kernels": [row]}).kernels) == {"gemm": certainty}


def test_seven_calls_of_a_kernel_are_too_few(compared):
    base, new = (
        {"kernels": [kernel(7 * ms, lowest_ms=ms, highest_ms=ms, count=7)]} for ms in (2, 3)
    )
    assert certainties(compared(base, new).kernels) == {"gemm": TOO_FEW}
