"""How sure the difference of a phase is."""

from dataclasses import replace

import numpy as np
import pytest

from lightning_gpuprof.analysis.compare.bootstrap import Certainty, SteadyTime, intervals_of_times
from lightning_gpuprof.analysis.compare.compare import compare
from lightning_gpuprof.analysis.run.step_kinds import PLAIN, StepKind, blocks_of
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import UNTIMED_STEPS, OutsideSpan, StepFlag

MS = 1_000_000
SURE, NOISE, TOO_FEW = Certainty.SURE, Certainty.NOISE, Certainty.TOO_FEW


def drifting(mean_ms, *, seed, steps=300, spread=0.1, alike=0.5):
    """A time per step of which neighbours resemble each other."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal(steps)
    for step in range(1, steps):
        noise[step] = alike * noise[step - 1] + np.sqrt(1 - alike**2) * noise[step]
    return (mean_ms * MS * np.exp(spread * noise)).astype(np.int64)


def phases(seed, *, forward_ms=6.0, **options):
    return {
        "data_wait": drifting(5, seed=seed, spread=0.5, **options),
        "forward": drifting(forward_ms, seed=seed + 1, **options),
        "backward": drifting(11, seed=seed + 2, **options),
    }


def changes(analyze, base, new):
    result = compare(analyze(**base), analyze(**new), tolerance=0.01)
    return {change.name: change for change in result.phases}


def test_a_real_difference_is_sure_and_the_others_are_noise(analyze):
    base, new = {"phases": phases(0)}, {"phases": phases(10, forward_ms=5.0)}
    by_name = changes(analyze, {**base, "steps": 300}, {**new, "steps": 300})
    assert {name: change.certainty for name, change in by_name.items()} == {
        "data_wait": NOISE,
        "forward": SURE,
        "backward": NOISE,
    }
    intervals = by_name["forward"].intervals
    assert intervals.diff.low < -1.0 * MS < intervals.diff.high < 0
    assert intervals.diff.middle == by_name["forward"].diff
    assert intervals.base.low < by_name["forward"].base < intervals.base.high
    assert intervals.new.low < by_name["forward"].new < intervals.new.high < intervals.base.low


def test_seven_steps_show_nothing_however_different_they_are(analyze):
    base, new = ({"phases": {"forward": ms * MS}, "steps": 7} for ms in (10, 20))
    (change,) = changes(analyze, base, new).values()
    assert change.certainty is TOO_FEW
    assert not change.sure
    assert change.intervals[:3] == (None, None, None)
    eight = changes(analyze, {**base, "steps": 8}, {**new, "steps": 8})
    assert eight["forward"].certainty is SURE


@pytest.mark.parametrize(("steps", "alike"), [(12, 0.0), (100, 0.5)])
def test_of_equal_runs_about_one_in_twenty_differs_in_any_of_twelve_phases(steps, alike):
    def times(seed):
        kinds = (StepKind(PLAIN, np.ones(steps, dtype=bool), 1.0),)
        for row in range(12):
            spread = 0.1 if row < 8 else 0.8
            values = drifting(row + 1, seed=seed + row, steps=steps, spread=spread, alike=alike)
            yield SteadyTime(float(values.mean()), blocks_of(values, kinds))

    differing = 0
    for pair in range(60):
        base, new = ([*times(1_000 * pair + offset)] for offset in (0, 500))
        differing += any(of.certainty is SURE for of in intervals_of_times(base, new))
    assert differing <= 8


def test_a_difference_that_rests_on_two_validations_is_not_shown(analyze):
    flags = np.where(np.arange(200) % 100 == 99, int(StepFlag.VALIDATION), 0)
    validation = {ms: np.where(flags > 0, ms * MS, 0) for ms in (500, 900)}
    steps = {"steps": 200, "flags": flags}
    waits = np.where(flags > 0, 1_000 * MS, 5 * MS)
    base = {"phases": {**phases(0, steps=200), "data_wait": waits, "validation": validation[500]}}
    shorter = np.where(flags > 0, 1_000 * MS, 1 * MS)
    new = {"phases": {**phases(9, steps=200), "data_wait": shorter, "validation": validation[900]}}
    by_name = changes(analyze, {**base, **steps}, {**new, **steps})
    assert by_name["validation"].diff == 4 * MS
    assert by_name["validation"].certainty is TOO_FEW
    assert by_name["validation"].intervals.base is None
    assert by_name["data_wait"].certainty is SURE
    assert by_name["backward"].certainty is NOISE


def test_many_validations_show_their_difference(analyze):
    flags = np.where(np.arange(200) % 10 == 9, int(StepFlag.VALIDATION), 0)
    base, new = (
        {
            "phases": {"forward": 6 * MS, "validation": np.where(flags > 0, time, 0)},
            "steps": 200,
            "flags": flags,
        }
        for time in (drifting(500, seed=1, steps=200), drifting(900, seed=2, steps=200))
    )
    by_name = changes(analyze, base, new)
    assert by_name["validation"].certainty is SURE
    # How often validation runs is no chance: its mean is as sure as its duration is.
    interval = by_name["validation"].intervals.base
    assert interval.high - interval.low < 0.15 * interval.middle


def test_a_part_that_a_run_does_not_have_took_no_time_there(analyze):
    base, new = ({"phases": phases(seed), "steps": 300} for seed in (0, 9))
    parts = {"backward/exchange": drifting(2, seed=3), "forward/encoder": drifting(1, seed=4)}
    result = compare(
        analyze(**base, parts=parts),
        analyze(**new, parts={"forward/encoder": drifting(1, seed=5)}),
        tolerance=0.01,
    )
    by_name = {change.part: change for change in result.parts}
    assert (by_name["exchange"].new, by_name["exchange"].certainty) == (0, SURE)
    assert by_name["encoder"].certainty is NOISE


def test_a_phase_that_a_run_did_not_measure_is_not_compared(analyze):
    base = analyze(phases={"forward": 6 * MS, "data_wait": MS})
    unmeasured = replace(base, phases={Phase.FORWARD: base.phases[Phase.FORWARD]})
    for runs in ((base, unmeasured), (unmeasured, base)):
        by_name = {change.name: change for change in compare(*runs, tolerance=0.01).phases}
        assert by_name["data_wait"].diff is None
        assert by_name["data_wait"].intervals is None
        assert not by_name["data_wait"].sure
        assert by_name["forward"].certainty is NOISE


def test_intervals_are_per_sample_if_times_are(analyze):
    base = {"phases": phases(0), "steps": 300, "samples": 32}
    new = {"phases": phases(9), "steps": 300, "samples": 64}
    forward = changes(analyze, base, new)["forward"]
    assert forward.certainty is SURE
    assert forward.intervals.new.low < forward.new < forward.intervals.new.high
    assert forward.new == pytest.approx(6 * MS / 64, rel=0.05)


def test_time_in_untimed_steps_moves_the_interval_and_time_there_alone_shows_nothing(analyze):
    rest = OutsideSpan(
        UNTIMED_STEPS, 0, 900 * 8 * MS, phase_ns={"checkpoint": 900 * 2 * MS}, steps=900
    )
    base = {"phases": {"forward": drifting(5, seed=1, steps=100)}, "steps": 100}
    by_name = changes(analyze, base, {**base, "records": [rest]})
    assert by_name["checkpoint"].new == 1.8 * MS
    assert by_name["checkpoint"].certainty is TOO_FEW
    forward = by_name["forward"]
    assert forward.certainty is SURE
    assert forward.intervals.new.low < forward.new < forward.intervals.new.high
