import os
import socket
from dataclasses import replace

import pytest
from made_records import make_session as session_of
from msgspec import structs

from lightning_gpuprof.analysis.run.device_time import DeviceTime, StepState
from lightning_gpuprof.analysis.run.ranks.rank_difference import RankDifference
from lightning_gpuprof.analysis.run.ranks.rank_results import RankResults
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Device, Loader, RunEnd, StepFlag
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.document import Interval, Quantity, Verdict
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.run.answer import NOT_WRITTEN_YET, UNTIMED, WAITING, WRITTEN
from lightning_gpuprof.report.run.ranks import rank_verdict

MS = 1_000_000
OUT_OF_MEMORY = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a total "
    "capacity of 79.00 GiB of which 2.00 GiB is free."
)


@pytest.fixture
def report(write_run):
    """Load the report of a run given as to `make_session`."""

    def load(phases=None, **options):
        return load_report(write_run(session_of(phases or {"forward": MS}, **options)))

    return load


def ended(report, error):
    end = RunEnd(status="exception", wall_ns=MS, steps=0, error=error)
    return replace(report, results=replace(report.results, end=end))


def in_state(report, state, frac):
    """The report of a run whose marked steps were so often in this state."""
    dur = report.results.steps.dur
    device = replace(report.results.device, time=DeviceTime(100, dur, {}, (), 5_000, {state: frac}))
    return replace(report, results=replace(report.results, device=device))


def verdicts(document):
    return list(document.parts(Verdict))


def test_a_run_out_of_memory_says_what_did_not_fit_and_halves_the_batch(report):
    loaded = report(loader=Loader(batch_size=32), device=Device(type="cuda"))
    first, second = verdicts(build_run(ended(loaded, OUT_OF_MEMORY.format(asked="4.00"))))
    assert (first.kind, first.label) == ("failed", "This run ended")
    assert first.title == "Out of memory: 4.00 GiB more did not fit in 79.0 GiB"
    assert first.change == (
        "DataLoader(..., batch_size=16)\nTrainer(..., accumulate_grad_batches=2)"
    )
    assert second.kind != "failed"  # steps were recorded: what holds them back is said as well


def test_for_a_tensor_larger_than_the_device_no_batch_size_makes_room(report):
    loaded = report(loader=Loader(batch_size=32), device=Device(type="cuda"), steps=0)
    (only,) = verdicts(build_run(ended(loaded, OUT_OF_MEMORY.format(asked="4096.00"))))
    assert only.change is None
    assert only.sentence.startswith("One tensor is larger than the whole device")


def test_another_exception_is_no_lack_of_memory(report):
    document = build_run(ended(report(), "ValueError: no"))
    assert document.section("failure") is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"timer": ""}, UNTIMED),
        ({}, "This fit session ended before it wrote its first window of steps."),
    ],
)
def test_without_steps_the_verdict_says_why(report, options, sentence):
    loaded = report({}, steps=0, **options)
    verdict = build_run(loaded).verdict
    assert (verdict.kind, verdict.sentence) == ("not_measured", sentence)


def test_of_a_live_run_the_verdict_says_when_its_first_steps_are_there(report):
    loaded = report({}, steps=0)
    host, pid = socket.gethostname(), os.getpid()
    start = structs.replace(loaded.results.start, host=host, pid=pid)
    live = replace(loaded, results=replace(loaded.results, start=start, end=None))
    verdict = build_run(live).verdict
    assert (verdict.title, verdict.sentence) == (WAITING, f"{WRITTEN}.")


def test_of_a_run_on_another_machine_it_is_not_known_whether_it_trains(report):
    loaded = report({}, steps=0)
    start = structs.replace(loaded.results.start, host="elsewhere", pid=1)
    open_run = replace(loaded, results=replace(loaded.results, start=start, end=None))
    assert build_run(open_run).verdict.sentence == NOT_WRITTEN_YET


def test_of_a_run_whose_process_is_gone_no_steps_are_waited_for(report):
    loaded = report({}, steps=0)
    start = structs.replace(loaded.results.start, host=socket.gethostname(), pid=2**31 - 1)
    gone = replace(loaded, results=replace(loaded.results, start=start, end=None))
    verdict = build_run(gone).verdict
    assert verdict.title == "No training step was recorded"
    assert verdict.sentence.startswith("This fit session ended before it wrote")


def test_where_no_finding_is_worth_a_change_the_side_that_steps_wait_for_is_the_verdict(report):
    loaded = replace(report(device=Device(type="cuda")), findings=())
    verdict = build_run(in_state(loaded, StepState.HOST_BOUND, 1.0)).verdict
    assert (verdict.kind, verdict.finding) == ("limit", None)
    assert verdict.title == "The GPU waits for the host in 100% of steps"
    assert "Less host work per step" in verdict.sentence


def test_a_gpu_that_is_the_limit_had_work_queued(report):
    loaded = replace(report(device=Device(type="cuda")), findings=())
    verdict = build_run(in_state(loaded, StepState.DEVICE_BOUND, 0.9)).verdict
    assert verdict.title == "The GPU is the limit"
    assert verdict.sentence.startswith("It had work queued in 90% of steps. Lower precision")


def test_without_findings_and_marks_nothing_holds_training_back(report):
    document = build_run(replace(report(), findings=()))
    assert (document.verdict.kind, document.verdict.title) == (
        "nothing",
        "Nothing here holds training back much",
    )
    assert document.section("findings").body[0].lines == ("No rule fired on what was measured.",)


def test_warm_up_steps_alone_are_too_short_whatever_was_found(report):
    phases = {"data_wait": 6 * MS, "forward": 3 * MS}
    loaded = report(phases, steps=4, flags=StepFlag.WARMUP, loader=Loader(num_workers=0))
    assert loaded.findings[0].severity is not Severity.INFO
    assert build_run(loaded).verdict.kind == "too_short"


def test_the_plan_has_quick_changes_first_with_their_savings_and_efforts(report):
    phases = {"data_wait": 6 * MS, "forward": 3 * MS, "callbacks": MS}
    loaded = report(phases, parts={"callbacks/A": MS}, loader=Loader(num_workers=0))
    document = build_run(loaded)
    rows = document.rows("plan")
    horizons = [row["horizon"] for row in rows]
    assert horizons == sorted(horizons, key=("quick", "medium", "long").index)
    assert {row["finding"] for row in rows} == {card.id for card in document.findings}
    first = next(card for card in document.findings if card.id == "data-wait")
    row = next(row for row in rows if row["finding"] == "data-wait")
    assert row["change"] == first.short_change
    assert row["saving_frac"] == first.saving.frac
    assert (row["difficulty"], row["risk"]) == (first.difficulty, first.risk)


def test_questions_that_are_worth_a_look_come_first_with_their_own_units(report):
    phases = {"data_wait": 6 * MS, "forward": 3 * MS}
    rows = build_run(report(phases, loader=Loader(num_workers=0))).rows("checklist")
    states = [row["state"] for row in rows]
    assert states == sorted(states, key=("look", "good", "not_measured").index)
    data = next(row for row in rows if row["id"] == "data-share")
    assert rows[0] is data
    assert data["value"] == Quantity(pytest.approx(2 / 3), "frac")
    assert (data["finding"], data["note"]) == ("data-wait", "Look at the finding data-wait.")
    assert {row["state"] for row in rows if row["value"] is None} == {"not_measured"}


def rank(number, forward_ms, **fields):
    means = {Phase.FORWARD: round(forward_ms * MS), Phase.BACKWARD: 5 * MS}
    mean_ns = sum(means.values())
    return RankView(number, "host", 9, mean_ns, mean_ns, means, "finished", **fields)


def test_ranks_are_alike_or_differ_in_a_phase():
    views = (rank(0, 5), rank(1, 9))
    difference = RankDifference(rank=1, phase=Phase.FORWARD, more_ns=4 * MS)
    alike = "The ranks are alike."
    assert rank_verdict(RankResults(views=views), ())[0] == alike
    slightly = replace(difference, more_ns=MS // 10)
    assert rank_verdict(RankResults(views=views, difference=slightly), ())[0] == alike
    assert rank_verdict(RankResults(views=views, difference=difference), ())[0] == (
        "Ranks differ most in forward: rank 1 takes 4.00 ms longer than the others."
    )


def test_of_many_ranks_those_that_wait_least_come_first(report):
    loaded = report()
    views = tuple(rank(n, 5, waited_ns=(20 - n) * MS) for n in range(12))
    ranks = replace(loaded.results.ranks, views=views)
    document = build_run(replace(loaded, results=replace(loaded.results, ranks=ranks)))
    rows = document.rows("ranks")
    assert [row["rank"] for row in rows] == list(range(11, -1, -1))
    assert document.section("ranks").note == "12 ranks; those that wait least come first"


def test_a_saving_is_a_share_and_a_new_step_only_where_it_is_a_steady_steps_time(report):
    phases = {"data_wait": 6 * MS, "forward": 4 * MS}
    card = build_run(report(phases, loader=Loader(num_workers=0))).findings[0]
    saving = card.saving
    assert saving.when == "in_steps"
    assert saving.step_after_ns == Interval(10 * MS - saving.high_ns, 10 * MS - saving.low_ns)
    assert saving.outcome.endswith("instead of 10.0 ms")
