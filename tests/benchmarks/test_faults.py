import json

import pytest

from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report

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


def test_the_right_name_with_advice_that_makes_it_worse_is_not_right(judged):
    more = finding("data-wait", 0, MS, change="DataLoader(..., num_workers=8)")
    none = finding("data-wait", 0, MS, change="DataLoader(..., num_workers=0)")

    assert not judged("too_many_workers", more).first
    assert judged("too_many_workers", none).first


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
    monkeypatch.setattr(run, "report", lambda log_dir: [said])
    monkeypatch.setattr(run, "findings_of", list)
    suite = run.Suite(tmp_path, quick=False, reread=True)

    trial = suite.trial(CAUSES["too_many_workers"], 0.6)

    assert (trial.knob, trial.verdict().saved_ns) == (3.0, 4 * MS)
    assert trial.verdict().inside is inside


def test_the_recorded_runs_name_their_cause_first(fault_suite, tmp_path):
    from _harness import findings_of
    from causes import CAUSES
    from recorded import lay_out_faults
    from score import right_first

    runs = lay_out_faults(tmp_path)
    assert set(runs) == set(CAUSES)
    for name, run in runs.items():
        said = findings_of(build_run(load_report(str(run))))
        assert right_first(CAUSES[name], said), (name, [finding["id"] for finding in said])
