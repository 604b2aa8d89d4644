"""Findings get the intervals that such changes kept to; savings stay possible."""

from math import exp, hypot, log

import msgspec
import pytest
from rule_cases import MS, made

from lightning_gpuprof.analysis.savings.conformal import BELOW, FLOOR, MOST_BELOW, Calibration, Pair
from lightning_gpuprof.findings.calibrated import calibrated
from lightning_gpuprof.findings.engine import MOST_FRAC
from lightning_gpuprof.findings.model import Range, Severity
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.report.document import Saving
from lightning_gpuprof.report.finding_cards import finding_card

STEP = 10 * MS


def pairs(measured, kind="data-wait", count=20):
    """Equal pairs of a step of 10 ms, of which 5 to 7 ms were expected to stay."""
    ends = STEP, 5 * MS, 6 * MS, 7 * MS
    return tuple(
        Pair(kind, "made", "2026-11-28", "cpu", *ends, 0.0, measured) for _ in range(count)
    )


@pytest.fixture
def run(analyze):
    return analyze({"forward": STEP})


WAIT = made("data-wait", 3 * MS, 5 * MS, likely_ns=4 * MS)


def test_a_saving_is_as_far_off_as_such_changes_were(run):
    (finding,) = calibrated([WAIT], run, Calibration(pairs(7 * MS)))
    # As logarithms, a third of what was to be saved did not come.
    score = log(7 / 6) / hypot(log(10 / 6), FLOOR)
    below = min(BELOW + log(10 / 5), MOST_BELOW)
    assert finding.saving_ns == Range(3 * MS, round(STEP - 5 * MS * exp(-below * score)))
    assert finding.likely_ns == 4 * MS
    assert (finding.coverage.held, finding.coverage.count) == (20, 20)


def test_more_than_the_cause_is_said_to_be_beyond_it(run):
    cause = made("data-wait", 3 * MS, 5 * MS, likely_ns=4 * MS, cause_ns=Range(4 * MS, 5 * MS))
    (finding,) = calibrated([cause], run, Calibration(pairs(4 * MS)))
    assert finding.saving_ns.high == pytest.approx(6 * MS, abs=1)
    assert finding.beyond_ns == pytest.approx(MS, abs=1)
    assert "; the cause itself takes 5.00 ms" in finding_card(finding, run).saving.sentence


def test_a_saving_is_never_below_nothing_nor_all_of_the_step(run):
    (less,) = calibrated([WAIT], run, Calibration(pairs(20 * MS)))
    assert less.saving_ns.low == 0
    (more,) = calibrated([WAIT], run, Calibration(pairs(MS // 1_000)))
    assert more.saving_ns.high == round(MOST_FRAC * STEP)


def test_what_may_save_nothing_and_little_is_no_warning(run):
    (finding,) = calibrated([WAIT], run, Calibration(pairs(11 * MS)))
    assert (finding.saving_ns.low, finding.severity) == (0, Severity.WARNING)
    little = made("data-wait", MS, MS, likely_ns=MS)
    (finding,) = calibrated([little], run, Calibration(pairs(10_200_000)))
    assert (finding.saving_ns.low, finding.severity) == (0, Severity.WARNING)


def test_small_savings_keep_the_interval_of_their_model(run):
    small = made("data-wait", 300_000, 500_000, likely_ns=400_000)
    assert calibrated([small], run, Calibration(pairs(7 * MS))) == [small]


def test_findings_are_ranked_by_the_intervals_that_are_shown(run):
    other = made("slow-logging", 3 * MS, 4 * MS, likely_ns=7 * MS // 2)
    assert [f.id for f in calibrated([WAIT, other], run, Calibration())] == [WAIT.id, other.id]
    table = Calibration(pairs(11 * MS))
    assert [f.id for f in calibrated([WAIT, other], run, table)] == [other.id, WAIT.id]


def test_what_claims_no_time_and_what_was_never_measured_stay_as_they_are(run):
    fact = made("unused-vram", 0, 0)
    assert calibrated([WAIT, fact], run, Calibration()) == [WAIT, fact]


@pytest.mark.parametrize(
    ("table", "says", "basis", "frac"),
    [
        ((), "interval not tested", "no such change was ever measured", None),
        (pairs(6 * MS), "9 in 10 such estimates held", "20 of 20 measured changes of this kind", 1),
        (
            (*pairs(6 * MS, count=3), *pairs(6 * MS, "host-bound")),
            "9 in 10 such estimates held",
            "23 of 23 measured changes, of all kinds together, lay in intervals that were made "
            "like this one.",
            1,
        ),
    ],
)
def test_a_card_says_how_often_such_estimates_held_and_by_which_pairs(
    run, table, says, basis, frac
):
    (finding,) = calibrated([WAIT], run, Calibration(table))
    saving = finding_card(finding, run).saving
    assert saving.sentence.endswith(f"100% sure of the cause, {says}")
    assert basis in saving.basis
    assert saving.coverage_frac == frac
    assert saving.confidence == 1.0


def test_a_busy_machine_is_not_what_the_pairs_were_measured_on(analyze):
    run = analyze({"forward": STEP}, records=[CoreWait(wall_ns=100, queued_ns=40)])
    (finding,) = calibrated([WAIT], run, Calibration(pairs(6 * MS)))
    sentence = finding_card(finding, run).saving.sentence
    assert sentence.endswith("9 in 10 such estimates held, on quieter machines")


def test_a_document_of_an_earlier_version_has_no_coverage(run):
    (finding,) = calibrated([WAIT], run, Calibration(pairs(6 * MS)))
    fields = msgspec.to_builtins(finding_card(finding, run).saving)
    del fields["coverage_frac"], fields["basis"]
    saving = msgspec.convert(fields, Saving)
    assert (saving.coverage_frac, saving.basis) == (None, None)
