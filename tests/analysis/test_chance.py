"""Chance: how often a mean is called sure that is not, and how small a true one is found."""

import numpy as np
import pytest

from lightning_gpuprof.analysis.chance import MIN_BLOCKS, sure_means

RUNS = 200


def drifting(random, rows, steps, memory):
    """Return noise in which a step resembles the one before, by a correlation of `memory`."""
    noise = random.normal(size=(rows, steps)) * np.sqrt(1 - memory**2)
    noise[:, 0] = random.normal(size=rows)
    for step in range(1, steps):
        noise[:, step] += memory * noise[:, step - 1]
    return noise


@pytest.mark.parametrize(("steps", "memory"), [(100, 0.0), (400, 0.0), (400, 0.8), (2000, 0.9)])
@pytest.mark.parametrize("rows", [1, 8])
def test_of_rows_without_a_mean_some_row_is_called_sure_in_few_runs(steps, memory, rows):
    random = np.random.default_rng(0)
    sure = sum(
        bool((sure_means(drifting(random, rows, steps, memory)) > 0).any()) for _ in range(RUNS)
    )
    assert sure / RUNS <= 0.05


def test_rare_large_values_are_not_called_sure():
    random = np.random.default_rng(1)
    sure = 0
    for _ in range(RUNS):
        values = random.exponential(50, 300) * (random.random(300) < 0.03)
        others = random.exponential(50, 300) * (random.random(300) < 0.03)
        sure += bool(sure_means((values - others)[None, :])[0] > 0)
    assert sure / RUNS <= 0.02


def test_a_difference_of_a_fifth_of_the_noise_is_sure_in_1000_steps():
    random = np.random.default_rng(2)
    sure = sum(bool(sure_means(random.normal(0.2, 1, (1, 1000)))[0] > 0) for _ in range(RUNS // 4))
    assert sure / (RUNS // 4) >= 0.95


def test_a_bound_lies_below_the_mean_and_is_the_same_each_time():
    rows = np.random.default_rng(3).normal(5, 1, (2, 300))
    sure = sure_means(rows)
    assert (sure < rows.mean(axis=1)).all()
    assert (sure > 4).all()
    assert sure.tolist() == sure_means(rows).tolist()


def test_too_few_steps_are_never_sure():
    assert sure_means(np.full((1, MIN_BLOCKS - 1), 9.0))[0] == -np.inf
    assert sure_means(np.zeros((0, 100))).tolist() == []
