import numpy as np
import pytest
from rule_cases import MS, device_sample, every, exchanging, outcome, span

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.facts import BatchSizes, CoreWait, IoPressure, PageFaults
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import StepFlag


@pytest.fixture
def judge_ranks(ranks):
    return lambda *phases: outcome("straggler-rank", ranks(*({"phases": p} for p in phases)))


def test_the_rank_that_others_wait_for_is_named_with_its_phase(judge_ranks):
    fast = {"data_wait": MS, "forward": 4 * MS, "backward": 8 * MS}
    slow = {"data_wait": 5 * MS, "forward": 4 * MS, "backward": 4 * MS}
    finding = judge_ranks(fast, fast, slow)
    assert (finding.places[0].rank, finding.places[0].phase) == (2, "data_wait")
    assert span(finding) == (3_200_000, 4_800_000)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize(("elsewhere", "expected"), [(0, [54]), (25, []), (None, [])])
def test_a_rank_late_in_forward_names_the_lines_that_take_longer_there(
    ranks, late, elsewhere, expected
):
    def sampled(augment):
        model = LineCount("forward", "t.py", 46, "step", "self.net(x)", None, "model", 40)
        own = LineCount("forward", "t.py", 54, "augment", "x = roll(x)", None, None, augment)
        lines = HostLines(200, (model, own)[: 1 + (augment > 0)], {"forward": 40 + augment})
        return {"records": [lines]}

    each = [exchanging(MS, 8 * MS, 6 * MS, data_wait=MS)] * 2
    each[1 - late] = each[1 - late] | ({} if elsewhere is None else sampled(elsewhere))
    each[late] = exchanging(5 * MS, 4 * MS, 2 * MS, data_wait=MS) | sampled(30)
    (finding,) = evaluate_rules(ranks(*each), [rules()["straggler-rank"]]).findings
    assert (finding.places[0].rank, finding.places[0].phase) == (late, "forward")
    assert [at.line for at in finding.places if at.file] == expected


def test_a_wait_for_the_late_rank_in_self_log_is_not_a_cost_of_logging(ranks):
    def logs(data_wait, logging):
        first = exchanging(9 * MS, MS, 1, data_wait=data_wait, logging=logging)
        return first | {"parts": first["parts"] | {"logging/self.log": logging}}

    run = ranks(logs(MS, 6 * MS), logs(6 * MS, MS))
    assert outcome("straggler-rank", run).places[0].rank == 1
    (logging,) = outcome("slow-logging", run)
    assert logging.saving_ns.high < 1.5 * MS


def test_ranks_that_wait_for_one_another_by_turns_have_no_straggler(judge_ranks):
    first, other = every(2, 9 * MS, 3 * MS), every(2, 3 * MS, 9 * MS)
    finding = judge_ranks(
        {"forward": first, "backward": other}, {"forward": other, "backward": first}
    )
    assert "for changing ranks" in finding.title
    assert [(where.rank, where.phase) for where in finding.places] == [(None, "forward")]
    assert span(finding) == (0, 3 * MS)
    # Turns that no batch explains may be the machine's.
    finding = judge_ranks(
        {"optimizer_step": first, "backward": other},
        {"optimizer_step": other, "backward": first},
    )
    assert (finding.severity, span(finding)) == (Severity.INFO, (0, 0))


def test_the_records_of_one_rank_alone_say_nothing_of_the_others(ranks):
    advice = outcome("straggler-rank", ranks({"phases": {"backward": MS}}, world=4))
    assert advice.reason.startswith("it needs the records of all ranks")


def test_ranks_without_waits_have_no_finding(judge_ranks):
    fast = {"data_wait": MS, "backward": 4 * MS}
    assert judge_ranks(fast, {"data_wait": 5 * MS, "backward": 4 * MS}) is None


@pytest.mark.parametrize(("sizes", "saved"), [((300, 100), True), ((101, 100), False)])
def test_ranks_that_take_turns_because_their_batches_differ_in_size(ranks, sizes, saved):
    # The machine alone could explain the times: no phase of the batch is longer by turns.
    first, other = every(2, 9 * MS, 3 * MS), every(2, 3 * MS, 9 * MS)
    larger, smaller = sizes
    each = [
        {
            "phases": {"optimizer_step": own, "backward": waits},
            "records": [BatchSizes(batches)],
        }
        for own, waits, batches in (
            (first, other, (larger, smaller) * 8),
            (other, first, (smaller, larger) * 8),
        )
    ]
    finding = outcome("straggler-rank", ranks(*each))
    assert ("Batches of a step differ in size" in finding.advice) is saved
    # The larger batch has half as much again as the mean; backward includes 3 ms of waiting.
    assert span(finding) == ((1_500_000, 3 * MS) if saved else (0, 0))


def test_sizes_of_one_rank_alone_explain_nothing(ranks):
    first, other = every(2, 9 * MS, 3 * MS), every(2, 3 * MS, 9 * MS)
    recorded = {"records": [BatchSizes((300, 100) * 8)]}
    first_rank = {"phases": {"optimizer_step": first, "backward": other}} | recorded
    second_rank = {"phases": {"optimizer_step": other, "backward": first}}
    assert (
        "batches are not the reason"
        in outcome("straggler-rank", ranks(first_rank, second_rank)).advice
    )


SINCE = 60
ALL_STEPS = 160


def changing(late_first):
    """Two ranks, of which rank 1 waits 9 ms longer for its data before a step, or since then."""
    late = np.arange(ALL_STEPS) < SINCE if late_first else np.arange(ALL_STEPS) >= SINCE
    other = exchanging(MS, MS + 9 * MS * late, MS * 9 * late + MS // 2, data_wait=MS)
    slow = exchanging(MS, np.full(ALL_STEPS, MS), MS // 2, data_wait=MS + 9 * MS * late)
    return other, slow


@pytest.fixture
def judge_changing(write_ranks):
    def judge(late_first):
        path = write_ranks(*changing(late_first), steps=ALL_STEPS)
        return outcome("straggler-rank", analyze_run(read_run(path), {}))

    return judge


def test_a_delay_that_began_is_given_since_its_step_with_what_it_costs_now(judge_changing):
    finding = judge_changing(late_first=False)
    assert finding.title.startswith("Rank 1 delays each step by 9.00 ms")
    assert finding.title.endswith("in data_wait since step 60")
    assert finding.evidence["since_step_count"] == SINCE
    assert finding.evidence["late_steps_count"] == ALL_STEPS - SINCE
    assert finding.evidence["so_far_ns"] == 9 * MS * (ALL_STEPS - SINCE)
    # From that of the mean step (100 of 160 steps are late) to that of a late one.
    assert span(finding) == (4_500_000, 10_800_000)
    assert "slowed-down" in finding.explains
    assert "It has cost 900 ms in 100 steps, 1.80 s of all ranks." in finding.advice


def test_a_delay_that_is_over_is_reported_and_saves_nothing(judge_changing):
    finding = judge_changing(late_first=True)
    assert finding.title == "Rank 1 delayed each step by 9.00 ms in data_wait until step 59: over"
    assert (finding.places[0].rank, finding.places[0].phase) == (1, "data_wait")
    assert "since_step_count" not in finding.evidence
    assert finding.evidence["until_step_count"] == SINCE - 1
    assert (finding.severity, span(finding)) == (Severity.INFO, (0, 0))


def test_a_host_whose_ranks_are_all_late_is_named(ranks):
    early, late = exchanging(MS, 8 * MS, 6 * MS), exchanging(6 * MS, 3 * MS, MS)
    hosts = [{"host": "node1"}] * 2 + [{"host": "node2"}] * 2
    each = [early | hosts[0], early | hosts[1], late | hosts[2], late | hosts[3]]
    finding = outcome("straggler-rank", ranks(*each))
    assert [place.rank for place in finding.places if not place.file] == [2, 3]
    assert "on host node2" in finding.advice


def test_waiting_for_what_rank_0_does_at_the_end_of_epochs_makes_no_straggler(ranks):
    # In the first step of each epoch, rank 1 waits for rank 0, which has saved a checkpoint.
    flags = every(10, StepFlag.EPOCH_START)
    waits = every(10, 40 * MS, MS)
    options = {"flags": flags}
    run = ranks(exchanging(MS, MS, MS) | options, exchanging(MS, waits, waits) | options)
    assert outcome("straggler-rank", run) is None


def late_in(phase, late_records=(), other_records=()):
    """Two ranks, of which rank 1 takes 5 ms longer in a phase, with what each has recorded."""
    early = exchanging(MS, 8 * MS, 6 * MS, **{phase: MS}) | {"records": list(other_records)}
    late = exchanging(MS, 3 * MS, MS, **{phase: 6 * MS}) | {"records": list(late_records)}
    return early, late


S = 1_000 * MS


@pytest.mark.parametrize(
    ("late", "other", "sentence"),
    [
        (
            [CoreWait(10 * S, 3 * S)],
            [CoreWait(10 * S, S)],
            "It waits for a core in 30% of the time, the others in 10%",
        ),
        (
            [IoPressure(10 * S, 4 * S)],
            [IoPressure(10 * S, 0)],
            "Its machine waits for storage in 40% of the time, the others in 0%",
        ),
        (
            [CoreWait(10 * S, 0), PageFaults(9, 2 * S)],
            [CoreWait(10 * S, 0), PageFaults(9, 0)],
            "The kernel gives out memory in 20% of its time",
        ),
        (
            [BatchSizes((150,) * 8)],
            [BatchSizes((100,) * 8)],
            "Its batches hold 50% more than those of the others",
        ),
        (
            [device_sample(max_sm_clock_mhz=1200)],
            [device_sample(max_sm_clock_mhz=1500)],
            "Its GPU runs at a clock 20% below the others",
        ),
        (
            [device_sample(max_others_count=2)],
            [device_sample(max_others_count=0)],
            "Other programs use its GPU, up to 2 at a time.",
        ),
    ],
)
def test_what_is_recorded_of_the_late_rank_alone_is_the_advice(ranks, late, other, sentence):
    finding = outcome("straggler-rank", ranks(*late_in("data_wait", late, other)))
    assert sentence in finding.advice
    assert "uneven data" not in finding.advice


def test_what_all_ranks_have_in_common_is_no_reason(ranks):
    alike = [CoreWait(10 * S, 3 * S), BatchSizes((100,) * 8)]
    finding = outcome("straggler-rank", ranks(*late_in("data_wait", alike, alike)))
    assert "uneven data" in finding.advice


@pytest.mark.parametrize(
    ("phase", "words"),
    [("garbage_collection", "gc.freeze()"), ("checkpoint", "save less"), ("logging", "log in")],
)
def test_a_phase_of_a_known_kind_has_its_own_advice(ranks, phase, words):
    assert words in outcome("straggler-rank", ranks(*late_in(phase))).advice
