"""Simulated ranks: the late rank is named with its phase, and nobody where chance is the cause."""

from itertools import product

import pytest
from simulated_ranks import MS, WORK, simulate

from lightning_gpuprof.analysis.run.ranks.rank_results import rank_results
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.records.phases import Phase

SEEDS = range(100)
STEP_NS = sum(WORK.values()) * MS
CLEAN = {
    "two ranks on shared cores": {"interrupted_per_ms": 0.05, "interruption_ms": 5.0},
    "two ranks whose pace drifts": {"drift": 0.15},
    "waits that no rank's work explains": {"untold_ms": (0, 8.0)},
    "this package's own callback on rank 0": {"own_ms": (8.0, 0.2)},
    "eight ranks on shared cores": {"ranks": 8, "interrupted_per_ms": 0.05},
}


def compared(seed, **options):
    ranks = simulate(seed, **options)
    return rank_results(ranks, len(ranks))


def blames(results):
    """Whether a finding would name a rank."""
    waits = results.waits
    return waits.sure_ns is not None and waits.delay_ns >= WARNING_FRAC * STEP_NS


@pytest.mark.parametrize("name", CLEAN)
def test_clean_ranks_are_blamed_in_at_most_two_runs_of_a_hundred(name):
    results = [compared(seed, **CLEAN[name]) for seed in SEEDS]
    assert sum(map(blames, results)) / len(results) <= 0.02


def test_two_ranks_that_come_last_by_turns_are_what_the_test_is_about():
    shares = [
        compared(seed, **CLEAN["two ranks on shared cores"]).waits.last_frac[0] for seed in SEEDS
    ]
    assert sum(abs(share - 0.5) >= 0.06 for share in shares) >= 3
    waits = compared(0, **CLEAN["two ranks on shared cores"]).waits
    assert waits.mean_wait_ns >= 0.1 * STEP_NS


CAUSES = [
    ("data_wait", 1),
    ("forward", 1),
    ("backward", 1),
    ("optimizer_step", 1),
    ("callbacks", 1),
    ("callbacks", 10),
]


@pytest.mark.parametrize(("phase", "every"), CAUSES)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("late", ["first", "last"])
def test_the_late_rank_is_named_with_its_phase_and_what_it_costs(phase, every, ranks, late):
    rank = 0 if late == "first" else ranks - 1
    cause = {"late": (rank,), "phase": phase, "more_ms": 3.0 * every, "every": every}
    results = compared(ranks, ranks=ranks, **cause)
    waits = results.waits
    assert blames(results)
    assert waits.late == (rank,)
    assert next(iter(waits.causes)) is Phase(phase)
    assert (results.difference.rank, results.difference.phase) == (rank, Phase(phase))
    # What the cause costs is known here: the same ranks are simulated without it.
    saved_ns = mean_step(simulate(ranks, ranks=ranks, **cause)) - mean_step(
        simulate(ranks, ranks=ranks)
    )
    assert waits.delay_ns == pytest.approx(saved_ns, rel=0.3)
    assert waits.sure_ns <= waits.delay_ns + 1  # rounded by themselves


def mean_step(ranks):
    return ranks[0].columns["dur_ns"].mean()


@pytest.mark.parametrize(("ranks", "seed"), list(product([6, 8], range(3))))
def test_ranks_that_are_late_together_are_named_together(ranks, seed):
    results = compared(
        seed, ranks=ranks, late=(1, 2), phase="forward", more_ms=8.0, interrupted_per_ms=0.0
    )
    assert results.waits.late == (1, 2)
    assert next(iter(results.waits.causes)) is Phase.FORWARD


def test_a_sure_difference_is_smaller_than_the_phase_that_is_blamed():
    for seed in range(20):
        waits = compared(seed, late=(1,), phase="callbacks", more_ms=3.0, untold_ms=(9.0, 0)).waits
        assert waits.late == (1,)
        assert waits.delay_ns <= 5 * MS
