import json
from functools import partial

import pytest

MS = 1_000_000


def finding(name, low=0, high=0, severity="warning", **more):
    saving = {"low": low, "high": high}
    return {
        "id": name,
        "severity": severity,
        "title": f"{name} it is",
        "advice": "Change it.",
        "saving_ns": saving,
        "confidence": 0.9,
        **more,
    }


@pytest.fixture
def judged(fault_suite):
    """Return a function that judges findings of a cause whose fix saves 4 ms of 10 ms."""
    from causes import CAUSES
    from score import Pair, judge

    def judged(name, *said, profiled_ns=10 * MS):
        pair = Pair([10 * MS, 11 * MS, 10 * MS], [6 * MS, 7 * MS, 5 * MS], median_ns=10 * MS)
        return judge(
            CAUSES[name],
            wanted_frac=0.4,
            knob=1.0,
            said=said,
            pairs=[pair],
            profiled_ns=profiled_ns,
        )

    return judged


def test_the_suite_has_the_causes_and_controls_it_promises(fault_suite):
    from causes import CAUSES
    from controls import CONTROLS

    assert len(CAUSES) >= 20
    assert len(CONTROLS) == 10
    assert all(cause.name == name for name, cause in CAUSES.items())
    assert not set(CAUSES) & set(CONTROLS)


def test_every_cause_gives_a_faulty_and_a_fixed_run_of_equal_length(fault_suite):
    from causes import CAUSES

    for cause in CAUSES.values():
        faulty, fixed = cause.faulty(cause.guess), cause.fixed(cause.guess)
        assert faulty.timed_steps == fixed.timed_steps
        assert faulty.epoch_steps == fixed.epoch_steps


@pytest.mark.parametrize(
    ("said", "rank", "inside"),
    [
        ([finding("slow-callback", 3 * MS, 5 * MS), finding("other")], 0, True),
        ([finding("data-wait"), finding("slow-callback", 0, 1 * MS)], 1, False),
        ([], None, None),
    ],
)
def test_the_first_finding_and_the_saving_of_the_right_one_are_judged(judged, said, rank, inside):
    verdict = judged("slow_callback", *said)

    assert (verdict.first, verdict.rank, verdict.inside) == (rank == 0, rank, inside)
    assert verdict.saved_ns == 4 * MS


def test_a_machine_that_was_slower_when_the_saving_was_measured_is_told_apart(judged):
    verdict = judged("slow_callback", finding("slow-callback", 2 * MS, 3 * MS), profiled_ns=6 * MS)

    assert verdict.slower == pytest.approx(10 / 6)
    assert (verdict.inside, verdict.near) == (False, False)
    assert (verdict.inside_at_speed, verdict.near_at_speed) == (True, True)


def test_the_right_name_with_advice_that_makes_it_worse_is_not_right(judged):
    more = finding("data-wait", 0, MS, change="DataLoader(..., num_workers=8)")
    none = finding("data-wait", 0, MS, change="DataLoader(..., num_workers=0)")

    assert not judged("too_many_workers", more).first
    assert judged("too_many_workers", none).first


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ([], False),
        ([finding("data-wait", change="DataLoader(..., num_workers=0)")], True),
        ([finding("data-wait", change="DataLoader(..., num_workers=8)")], False),
        ([finding("slow-python"), finding("data-wait", change="num_workers=0")], False),
    ],
)
def test_a_report_alone_is_right_by_its_first_finding_and_advice(fault_suite, said, right):
    from causes import CAUSES
    from score import right_first

    assert right_first(CAUSES["too_many_workers"], said) is right


def test_a_proposed_number_of_workers_is_the_fix_that_gets_measured(fault_suite):
    from causes import CAUSES

    cause = CAUSES["slow_getitem"]
    proposed = cause.remedy({"change": "DataLoader(..., num_workers=2)"}, 10.0)

    assert proposed.loader["num_workers"] == 2
    assert "num_workers" not in cause.remedy({"change": None}, 10.0).loader
    assert cause.remedy(None, 10.0).dataset.func is cause.fixed(10.0).dataset.func


def test_the_summary_counts_what_the_suite_is_judged_by(judged, fault_suite):
    from score import summary
    from table import markdown

    right = judged("slow_callback", finding("slow-callback", 3 * MS, 5 * MS))
    off = judged("slow_callback", finding("slow-callback", 8 * MS, 9 * MS))
    controls = {"clean": [], "noisy": [finding("data-wait")]}
    totals = summary([right, off, judged("slow_callback")], controls)

    assert totals == {
        "case_count": 3,
        "first_count": 2,
        "named_count": 2,
        "inside_count": 1,
        "inside_at_speed_count": 1,
        "near_count": 1,
        "near_at_speed_count": 1,
        "told_count": 0,
        "inside_told_count": 0,
        "near_told_count": 0,
        "near_told_at_speed_count": 0,
        "step_error": {"count": 2, "median_frac": 0.375, "p90_frac": 0.75},
        "step_error_at_speed": {"count": 2, "median_frac": 0.375, "p90_frac": 0.75},
        "control_count": 2,
        "false_alarm_count": 1,
    }
    text = markdown([right, off], controls, totals)
    row = "| slow_callback | 40% | 40% | 10.00 | slow-callback | yes | 3.00 to 5.00 | x1.00 |"
    assert f"{row} 4.00 ± 1.43 | yes | +0%, cannot be told |" in text
    said = "error of the predicted new step time: median 37.5%, 90th percentile 75.0% of 2 cases."
    assert said in text


def test_the_new_step_time_is_predicted_by_the_one_figure_that_a_finding_names(judged):
    # 10 ms less 3 ms, where the fix left 6 ms.
    verdict = judged("slow_callback", finding("slow-callback", 0, 8 * MS, likely_ns=3 * MS))
    assert verdict.step_error_frac == pytest.approx(1 / 6)
    assert judged("slow_callback").step_error_frac is None


@pytest.mark.parametrize(
    ("change", "inside"),
    [("DataLoader(..., num_workers=0)", True), ("DataLoader(..., num_workers=1)", None)],
    ids=["the same fix", "another fix"],
)
def test_kept_recordings_and_pairs_are_judged_by_what_is_said_today(
    fault_suite, tmp_path, monkeypatch, change, inside
):
    import run
    from causes import CAUSES

    pair = {"slow_ns": [10 * MS] * 3, "fast_ns": [6 * MS] * 3, "median_ns": 10 * MS}
    kept = {"log_dir": "a run", "median_ns": 10 * MS, "knob": 3.0, "pairs": [pair]}
    case = {**kept, "asked": ["num_workers", 0]}
    (tmp_path / "kept.json").write_text(json.dumps({"too_many_workers 0.6": case}))
    said = finding("data-wait", 3 * MS, 5 * MS, change=change)
    monkeypatch.setattr(run, "report", lambda log_dir: {"findings": [said]})
    suite = run.Suite(tmp_path, quick=False, reread=True)

    trial = suite.trial(CAUSES["too_many_workers"], 0.6)

    assert (trial.knob, trial.verdict().saved_ns) == (3.0, 4 * MS)
    assert trial.verdict().inside is inside


def test_of_three_pairs_and_more_the_pairs_say_how_uncertain_a_saving_is(fault_suite):
    from score import Pair, error_ns

    def pair(*savings):
        return Pair(savings, [0.0] * len(savings), median_ns=1.0)

    within = pair(4.0, 4.2, 3.8)
    assert error_ns([within]) == pytest.approx(4.30 * 0.2 / 3**0.5)
    others = [pair(5.0, 5.2, 4.8), pair(6.0, 6.2, 5.8)]
    assert error_ns([within, *others]) == pytest.approx(4.30 / 3**0.5)
    assert error_ns([pair(4.0)]) is None


def test_the_time_that_is_left_goes_to_the_cases_that_take_fewest_pairs_more(
    fault_suite, monkeypatch
):
    import run
    from causes import CAUSES
    from score import Pair

    def trial(*savings):
        pairs = [Pair([one], [0.0], median_ns=1.0) for one in savings]
        return run.Trial(CAUSES["syncs"], 0.05, 1.0, [], 1.0, None, None, pairs)

    known, near, far = trial(9.9, 10, 10.1), trial(8.5, 10, 11.5), trial(1, 10, 20)
    clock, measured = [0.0], []
    monkeypatch.setattr(run.time, "monotonic", lambda: clock[0])

    class Measures:
        def measure(self, trial):
            clock[0] += 1
            measured.append(trial)
            trial.pairs.append(Pair([10.0], [0.0], median_ns=1.0))

    run.know_more(Measures(), [known, near, far], until=5.0)

    assert measured[0] is near
    assert measured[-1] is far
    assert known not in measured
    assert len(measured) == 5


def test_how_often_the_report_proposes_is_the_fix_that_gets_measured(fault_suite):
    from causes import CAUSES

    cause = CAUSES["frequent_checkpoint"]
    often = cause.remedy({"change": "ModelCheckpoint(..., every_n_train_steps=190)"}, 10.0)
    assert often.callbacks[0].keywords == {"every_n_train_steps": 190}
    assert (often.block_steps, often.timed_steps) == (190, 190)

    cause = CAUSES["frequent_validation"]
    checked = cause.remedy({"change": "Trainer(..., val_check_interval=50)"}, 8.0)
    assert checked.trainer == {"val_check_interval": 50}
    assert (checked.block_steps, checked.timed_steps) == (50, 200)
    fewer = {"change": "Trainer(..., limit_val_batches=0.2)"}
    assert cause.remedy(fewer, 8.0).trainer == {"val_check_interval": 60}
    larger = {"change": "DataLoader(..., batch_size=64)  # the validation's"}
    in_larger_batches = cause.remedy(larger, 8.0)
    assert in_larger_batches.val_loader == {"batch_size": 64}
    assert in_larger_batches.trainer == {"val_check_interval": 10}


def test_blocks_of_short_epochs_hold_whole_epochs(fault_suite):
    from causes import CAUSES

    for knob, epoch, block in [(119, 3, 60), (20, 18, 72), (4, 90, 90), (1, 360, 360)]:
        setup = CAUSES["worker_startup"].faulty(float(knob))
        assert (setup.epoch_steps, setup.block_steps) == (epoch, block)


def test_calibration_finds_the_knob_of_a_cost_in_proportion(fault_suite):
    from calibrate import calibrate
    from cause import Cause
    from workload import Setup

    made = {}

    def run(slow, knob):
        setup = Setup()
        made[id(setup)] = (setup, 10 * MS + slow * (50_000 + knob * 1_000))
        return setup

    cause = Cause(
        name="made_up",
        finding="host-bound",
        fix="none",
        faulty=partial(run, True),
        fixed=partial(run, False),
        knob="thousands of ns",
        guess=10.0,
        full_length=True,
    )
    found = calibrate(
        cause, 0.2, lambda *pair: tuple(made[id(setup)][1] for setup in pair), cause.guess
    )

    assert found.frac == pytest.approx(0.2, rel=0.2)


def test_calibration_gives_up_with_the_best_knob_where_the_least_costs_too_much(fault_suite):
    from calibrate import calibrate
    from cause import Cause
    from workload import Setup

    cause = Cause(
        name="made_up",
        finding="host-bound",
        fix="none",
        faulty=lambda knob: Setup(),
        fixed=lambda knob: Setup(),
        knob="pieces",
        guess=1,
        whole=True,
    )
    found = calibrate(cause, 0.05, lambda faulty, fixed: (30 * MS, 10 * MS), cause.guess)

    assert (found.knob, found.frac) == (1.0, pytest.approx(2 / 3))


class Baton:
    """A semaphore whose waits are told to a list, and make the clock go on."""

    def __init__(self, name, told, clock):
        self.name, self.told, self.clock = name, told, clock

    def acquire(self, block=True, timeout=None):
        self.told.append(f"wait for {self.name}")
        self.clock[0] += 7
        return True

    def release(self):
        self.told.append(f"pass to {self.name}")


def test_runs_take_turns_before_the_first_step_and_after_each_block(fault_suite, monkeypatch):
    import turns

    told, clock = [], [0]
    monkeypatch.setattr(turns.time, "perf_counter_ns", lambda: clock[0])
    mine = turns.Turns(Baton("me", told, clock), Baton("other", told, clock), steps=3)
    mine.begin(warm=2)

    waited = [mine.waited_ns(step) for step in range(6)]
    mine.end()

    turn_over = ["pass to other", "wait for me"]
    assert told == ["wait for me", *turn_over, *turn_over, "pass to other"]
    assert waited == [7, 7, 14, 14, 14, 21]


def test_a_peer_is_credited_for_the_place_in_its_own_words(fault_suite):
    from tools import credited

    assert credited("data-wait", (), "INPUT-BOUND: Input wait is 54% of the typical step.")
    assert not credited("frequent-validation", (), "COMPUTE-BOUND: backward is the largest phase.")
