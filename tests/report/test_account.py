"""What a run's document says of the time that is not work on batches."""

import pytest
from rule_cases import EPOCH_FLAGS, MS, WORK, every

from lightning_gpuprof.records.lines import LineCount, OutsideLines
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.document import Verdict
from lightning_gpuprof.report.load import load_report


@pytest.fixture
def document_of(make_session, write_run):
    return lambda *phases, **options: build_run(
        load_report(write_run(make_session(*phases, **options)))
    )


def verdict_of(document):
    (verdict,) = document.section("verdict").body
    assert isinstance(verdict, Verdict)
    return verdict


def ends(name, *each_ms):
    return [OutsideSpan("epoch_end", 0, ms * MS, {name: ms * MS}) for ms in each_ms]


def test_the_rows_of_the_account_add_up_to_the_wall_time(document_of):
    document = document_of(
        {**WORK, "callbacks": MS}, parts={"callbacks/Plots": MS}, flags=EPOCH_FLAGS,
        records=ends("other", *[10] * 9), wall_ns=1_500 * MS,
    )  # fmt: skip
    (table,) = document.section("account").body
    assert sum(row["total_ns"] for row in table.rows) == 1_500 * MS
    assert sum(row["frac"] for row in table.rows) == pytest.approx(1)
    assert [(row["name"], row.get("rhythm")) for row in table.rows] == [
        ("Work on batches", "step"),
        ("Plots", "step"),
        ("Other work between epochs", "epoch"),
        ("Not recorded", None),
    ]


def test_nothing_holds_training_back_only_where_little_is_unexplained(document_of):
    options = {"flags": EPOCH_FLAGS, "wall_ns": 1_072 * MS}
    quiet = verdict_of(document_of(WORK, **options, records=ends("other", *[2] * 9)))
    assert quiet.kind == "nothing"
    late = verdict_of(document_of(WORK, **options, records=ends("other", *[8] * 9)))
    assert (late.kind, late.finding) == ("limit", "unexplained-share")
    assert late.title == "6.7% of the run is not work on batches"
    assert "Other work between epochs 6.7% (8.00 ms per epoch)" in late.sentence


def test_much_time_that_rules_judged_to_be_usual_is_named_too(document_of):
    validated = {**WORK, "validation": every(25, 70 * MS), "data_wait": MS // 2}
    flags = every(25, StepFlag.VALIDATION)
    verdict = verdict_of(document_of(validated, flags=flags))
    assert verdict.kind != "nothing"


def test_what_was_done_once_in_a_short_run_is_said_beside_the_verdict(document_of):
    start = OutsideSpan("setup", 0, 900 * MS, {"other": 900 * MS}, {"other/setup": 900 * MS})
    verdict = verdict_of(document_of(WORK, records=[start], wall_ns=1_900 * MS))
    assert verdict.kind == "nothing"
    assert "47% of this run was done only once" in verdict.sentence


def test_lines_between_epochs_have_their_hook_and_their_share_of_the_samples(document_of):
    line = LineCount("other", "train.py", 9, "table", "dumps(rows)", None, None, 30, part="hook")
    rare = LineCount("other", "train.py", 12, "table", "sum(rows)", None, None, 4, part="hook")
    sampled = OutsideLines(40, (line, rare), {"other": 40})
    document = document_of(WORK, flags=EPOCH_FLAGS, records=[*ends("other", 9, 9), sampled])
    (table,) = document.section("outside_lines").body
    (row,) = table.rows
    assert (row["place"].line, row["part"], row["frac"]) == (9, "hook", 0.75)
    assert document_of(WORK, session=1).section("outside_lines") is None
