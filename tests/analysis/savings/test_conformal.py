"""Intervals hold as often as they claim, and say by which pairs that was tested."""

from pathlib import Path

import numpy as np
import pytest

from lightning_gpuprof.analysis.savings.conformal import (
    OWN_PAIRS,
    Calibration,
    Estimate,
    Pair,
    bound,
    calibration,
    held,
)

REPOSITORY = Path(__file__).parents[3]
MODEL = Estimate(step_ns=1_000.0, least_ns=500.0, likely_ns=600.0, most_ns=700.0)


def pair(score, kind="data-wait", device="cpu", source="made"):
    """A pair whose measured step is longer than expected, with this score."""
    estimate = Estimate(1e9, 5e8, 6e8, 7e8)
    measured_ns = round(estimate.within(score)[1])
    expected = 1_000_000_000, 500_000_000, 600_000_000, 700_000_000, 0.0
    return Pair(kind, source, "2026-11-28", device, *expected, measured_ns)


def scattered(random, count):
    """Estimates as they are, and measured steps: a tenth off, and now and then far below."""
    saved = random.uniform(0.05, 0.8, count)
    spread = random.uniform(0.02, 0.2, count)
    off = 0.1 * random.standard_normal(count) - random.exponential(0.15, count)
    estimates = [
        Estimate(1.0, (1 - part) * np.exp(-wide), 1 - part, (1 - part) * np.exp(wide))
        for part, wide in zip(saved, spread, strict=True)
    ]
    return estimates, (1 - saved) * np.exp(off)


def drawn(random, count):
    """Scores of pairs as they are."""
    cases = zip(*scattered(random, count), strict=True)
    return sorted(estimate.score(measured) for estimate, measured in cases)


@pytest.mark.parametrize("count", [OWN_PAIRS, 60, 199])
def test_nine_in_ten_new_cases_lie_in_the_intervals_that_others_like_them_give(count):
    random, inside, claimed = np.random.default_rng(40), 0, []
    for _ in range(300):
        scores = drawn(random, count)
        claimed.append(held(scores) / count)
        for estimate, measured in zip(*scattered(random, 20), strict=True):
            least, most = estimate.within(bound(scores))
            inside += least <= measured <= most
    covered = inside / (300 * 20)
    assert 0.87 < covered < 0.93
    # What is claimed, each pair judged by the others, is what comes true.
    assert np.mean(claimed) == pytest.approx(covered, abs=0.02)


def test_a_kind_with_twenty_pairs_is_judged_by_its_own():
    own = [pair(number / 20) for number in range(1, OWN_PAIRS + 1)]
    table = Calibration((*own, *(pair(5.0, "host-bound") for _ in range(50))))
    after = table.step_after("data-wait", "cpu", MODEL)
    # The 19th of 20 is the first beyond nine tenths of 21; two are above what the others allow.
    assert (after.least_ns, after.most_ns) == pytest.approx(MODEL.within(0.95))
    assert (after.coverage.held, after.coverage.count, after.coverage.pooled) == (18, 20, False)


def test_a_kind_with_fewer_is_judged_by_all():
    few = [pair(0.1) for _ in range(OWN_PAIRS - 1)]
    table = Calibration((*few, *(pair(0.7, "host-bound") for _ in range(21))))
    after = table.step_after("data-wait", "cpu", MODEL)
    assert (after.coverage.held, after.coverage.count, after.coverage.pooled) == (40, 40, True)
    assert (after.least_ns, after.most_ns) == pytest.approx(MODEL.within(0.7))


def test_a_planted_fault_says_that_its_kind_was_measured_and_bounds_nothing():
    planted = [pair(9.0, "recompilation", source="faults/recompilation") for _ in range(30)]
    table = Calibration((*planted, *(pair(0.5, "host-bound") for _ in range(21))))
    after = table.step_after("recompilation", "cpu", MODEL)
    assert (after.coverage.count, after.coverage.pooled) == (21, True)
    assert (after.least_ns, after.most_ns) == pytest.approx(MODEL.within(0.5))


@pytest.mark.parametrize(("kind", "device"), [("slow-fft-length", "cpu"), ("data-wait", "cuda")])
def test_what_was_never_measured_keeps_the_interval_of_its_model(kind, device):
    after = Calibration(tuple(pair(0.5) for _ in range(30))).step_after(kind, device, MODEL)
    assert after.coverage is None
    assert (after.least_ns, after.most_ns) == pytest.approx((MODEL.least_ns, MODEL.most_ns))


def test_a_busy_machine_widens_an_interval():
    table = Calibration(tuple(pair(0.5) for _ in range(30)))
    busy = Estimate(1_000.0, 500.0, 600.0, 700.0, busy_frac=0.4)
    quiet, loud = (table.step_after("data-wait", "cpu", estimate) for estimate in (MODEL, busy))
    assert loud.least_ns < quiet.least_ns < quiet.most_ns < loud.most_ns


def test_an_interval_without_error_holds_what_was_expected_and_nothing_more():
    table = Calibration(tuple(pair(0.0) for _ in range(30)))
    after = table.step_after("data-wait", "cpu", MODEL)
    assert (after.least_ns, after.most_ns) == pytest.approx((MODEL.least_ns, MODEL.likely_ns))


def test_the_pairs_of_this_version_are_of_no_program_that_is_kept_for_the_test():
    kept = {path.stem for path in (REPOSITORY / "benchmarks/unseen/programs").glob("*.py")}
    pairs = calibration().pairs
    assert kept
    assert not kept & {row.source.rpartition("/")[2] for row in pairs}
    for row in pairs:
        assert 0 < row.least_ns <= row.most_ns
        assert row.measured_ns > 0
