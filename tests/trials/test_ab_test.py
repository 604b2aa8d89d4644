import numpy as np
import pytest
import torch
from planted import FakeClock

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.ab_test import ab_test, bootstrap_speedup, difference_of


def version(clock, took_ns, returns=lambda x: x * 2, log=None):
    def call(x):
        clock.now_ns += took_ns
        if log is not None:
            log.append(took_ns)
        return returns(x)

    return call


def run(slow_ns, fast_ns, *, returns=lambda x: x * 2, log=None, iterations=20, **options):
    clock = FakeClock()
    versions = version(clock, slow_ns, log=log), version(clock, fast_ns, returns, log)
    options |= {"warmup": 1, "iterations": iterations, "clock": clock}
    return ab_test(*versions, torch.ones(4), **options)


@pytest.mark.parametrize(
    ("slow_ns", "fast_ns", "faster", "said"),
    [
        (4_000_000, 2_000_000, True, "2.00 x  2.00 to 2.00, 19 times in 20"),
        (2_000_000, 4_000_000, False, "0.50 x  0.50 to 0.50, 19 times in 20"),
        (2_000_000, 2_000_000, False, "1.00 x  1.00 to 1.00, 19 times in 20"),
    ],
)
def test_the_times_of_a_version_that_agrees_are_compared(slow_ns, fast_ns, faster, said):
    result = run(slow_ns, fast_ns)

    assert result.correct
    assert result.faster is faster
    assert result.speedup == slow_ns / fast_ns
    lines = [line.split(maxsplit=1) for line in str(result).splitlines()[1:]]
    shown = {name: " ".join(text.split()) for name, text in lines}
    assert shown["baseline"] == f"{slow_ns / 1e6:.2f} ms {slow_ns / 1e6:.2f} ms"
    assert shown["optimized"] == f"{fast_ns / 1e6:.2f} ms {fast_ns / 1e6:.2f} ms"
    assert shown["speed-up"] == " ".join(said.split())
    assert shown["results"] == "agree"


def test_a_wrong_version_is_wrong_however_fast():
    result = run(4_000_000, 1_000_000, returns=lambda x: x * 2.5)
    correct, speedup = result

    assert not correct
    assert speedup == 4
    assert "differ: Tensor-likes are not close! Mismatched elements: 4 / 4" in str(result)
    assert "Greatest absolute difference: 0.5" in str(result)


def test_the_tolerance_decides_what_is_wrong():
    def off(x):
        return x * 2 + 0.02

    assert run(2, 1, returns=off).correct
    assert not run(2, 1, returns=off, tolerance=1e-3).correct


def test_the_versions_take_turns_and_neither_always_goes_first():
    log = []
    run(1, 2, log=log, iterations=4)

    assert log[4:] == [1, 2, 2, 1, 1, 2, 2, 1]  # behind one comparison and one first call each


def test_a_version_that_writes_into_its_inputs_does_not_spoil_the_comparison():
    result = ab_test(
        lambda x: x.mul_(2), lambda x: x * 2, torch.full((3,), 5.0), warmup=1, iterations=2
    )

    assert result.correct


def test_random_versions_are_compared_under_the_same_random_state():
    dropout = torch.nn.functional.dropout

    assert ab_test(dropout, dropout, torch.ones(1000), warmup=1, iterations=2).correct


def test_no_iterations_are_refused():
    with pytest.raises(ConfigError, match="iterations=0"):
        ab_test(torch.square, torch.square, torch.ones(1), iterations=0)


def test_noisy_pairs_widen_the_interval_around_one():
    noisy = [10, 14, 8, 12, 9, 15, 7, 11] * 4
    low, high = bootstrap_speedup(noisy, list(reversed(noisy)))

    assert low < 1 < high


NAN = float("nan")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.tensor([1.0, NAN, float("inf")]), torch.tensor([1.0, NAN, float("inf")])),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.bfloat16)),
        ({"a": [1, 2.0]}, {"a": (1, 2.0)}),
        (np.ones(3), np.ones(3)),
        (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
        (torch.tensor([1000.0]), torch.tensor([1000.0005])),
        ("text", "text"),
    ],
)
def test_equal_results_agree_across_containers_libraries_and_types(first, second):
    assert difference_of(first, second, 1e-6) == ""


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        (torch.ones(2), torch.ones(3), "shape"),
        ({"a": 1}, {"b": 1}, "keys"),
        ([torch.ones(2), torch.ones(2)], [torch.ones(2), torch.zeros(2)], "2 / 2"),
        (torch.tensor([1.0]), torch.tensor([NAN]), "nan"),
        ("left", "right", "'right' against 'left'"),
        (None, torch.ones(1), "None"),
    ],
)
def test_a_difference_is_named(first, second, difference):
    assert difference in difference_of(first, second, 1e-2)
