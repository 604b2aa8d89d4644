"""A lasting change of the step time: at once, little by little, or none but chance."""

import numpy as np
import pytest

from lightning_gpuprof.records.phases import Phase

US, MS = 1_000, 1_000_000
STEPS = 400
RUNS = 100


@pytest.fixture
def pace(analyze):
    def changed(**phases):
        return analyze(phases, steps=STEPS).variation.pace

    return changed


def noise(seed, scatter=0.1, spikes=0.02):
    """Return factors of a step's time: scatter, and a few steps that are twice as long."""
    random = np.random.default_rng(seed)
    return random.gamma(1 / scatter**2, scatter**2, STEPS) * (1 + (random.random(STEPS) < spikes))


def test_a_change_at_once_is_told_with_its_step_and_phase(pace):
    forward = np.where(np.arange(STEPS) < 137, 5 * MS, 9 * MS) * noise(0)
    changed = pace(forward=forward, backward=4 * MS * noise(1))
    assert changed.per_step_ns is None
    assert abs(changed.since_step - 137) <= 2
    assert changed.main_phase is Phase.FORWARD
    assert changed.before_ns == pytest.approx(9 * MS, rel=0.05)
    assert changed.after_ns == pytest.approx(13 * MS, rel=0.05)


@pytest.mark.parametrize("since", [20, 150])
def test_a_ramp_is_told_as_a_ramp(pace, since):
    grown = 20 * US * (np.arange(STEPS) - since).clip(min=0)
    changed = pace(forward=(5 * MS + grown) * noise(0), backward=4 * MS * noise(1))
    assert changed.per_step_ns == pytest.approx(20 * US, rel=0.2)
    assert abs(changed.since_step - since) <= 30
    assert changed.until_step >= STEPS - 60
    assert changed.main_phase is Phase.FORWARD


def test_growth_that_ends_is_no_change_at_once(pace):
    grown = 40 * US * np.arange(STEPS).clip(max=250)
    changed = pace(forward=(5 * MS + grown) * noise(0))
    assert changed.per_step_ns == pytest.approx(40 * US, rel=0.2)
    assert changed.since_step <= 5
    assert abs(changed.until_step - 250) <= 30


def test_steps_that_get_shorter_change_at_once_or_not_at_all(pace):
    assert pace(forward=np.where(np.arange(STEPS) < 100, 9 * MS, 5 * MS)).after_ns == 5 * MS
    assert pace(forward=(12 * MS - 20 * US * np.arange(STEPS)) * noise(0)) is None


def test_chance_changes_no_pace(pace):
    """No change in any of so many runs that scatter by a tenth, with a pace that drifts."""
    for seed in range(RUNS):
        drift = np.cumsum(np.random.default_rng(seed).normal(0, 0.005, STEPS))
        drift = np.exp(drift - np.linspace(0, drift[-1], STEPS))
        assert pace(forward=5 * MS * noise(seed) * drift) is None


def test_what_this_package_takes_changes_no_pace(analyze):
    own = np.where(np.arange(STEPS) < 200, 0, 9 * MS)
    phases, parts = {"forward": 5 * MS, "callbacks": own}, {"callbacks/GpuProfCallback": own}
    assert analyze(phases, steps=STEPS, parts=parts).variation.pace is None
    assert analyze(phases, steps=STEPS).variation.pace.main_phase is Phase.CALLBACKS


@pytest.mark.parametrize("steps", [3, 30])
def test_short_runs_have_no_change(analyze, steps):
    forward = np.where(np.arange(steps) < steps // 2, MS, 9 * MS)
    assert analyze({"forward": forward}, steps=steps).variation.pace is None
