"""Rules about several ranks."""

import pytest
from analyzed import made_analysis
from rule_cases import GPU, H100, MS, WORK, every, outcome, span

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.facts import SyncedLogs
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProfilerCycle


@pytest.fixture
def ranks(write_ranks):
    """Analyse ranks, given as one dict each as to `make_session`; others of the world left none."""

    def analysed(*each, world=None, traces=None):
        run = write_ranks(*each, world_size=world or len(each))
        return analyze_run(read_run(run), traces or {})

    return analysed


def exchanging(forward, backward, waits, **phases):
    parts = {"backward/gradient exchange": waits}
    return {"phases": {"forward": forward, "backward": backward, **phases}, "parts": parts}


def test_exposed_communication_is_judged_only_with_several_ranks(judge):
    assert judge("exposed-communication", WORK, trace={"gpu": GPU}, device=H100) is None
    finding = judge("exposed-communication", WORK, trace={"gpu": GPU}, device=H100, world_size=2)
    assert finding.evidence["exposed_comm_ns"] == 2 * MS
    assert span(finding) == (500_000, 1_500_000)


def exchange(name, total_ns=MS):
    return {"name": name, "category": "communication", "total_ns": total_ns}


GATHER, REDUCE = "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@pytest.mark.parametrize(
    ("strategy", "kernels", "advice", "proposed"),
    [
        ("DDPStrategy", [exchange(GATHER)], "SyncBatchNorm", False),
        ("FSDPStrategy", [], "forward_prefetch", False),
        ("DDPStrategy", [exchange(GATHER, 5), exchange(REDUCE, 4), exchange(REDUCE, 4)], "", True),
    ],
)
def test_gathered_weights_are_recognised_by_the_strategy_or_by_most_of_the_time(
    judge, strategy, kernels, advice, proposed
):
    trace, trainer = {"gpu": GPU, "kernels": kernels}, {"strategy": strategy}
    run = {"trace": trace, "trainer": trainer, "device": H100, "world_size": 2}
    finding = judge("exposed-communication", WORK, **run)
    assert advice in finding.advice
    assert bool(finding.change) is proposed


def test_communication_is_the_wait_of_the_last_rank(ranks):
    run = ranks(*(exchanging(11 * MS - waits, waits, waits) for waits in (2 * MS, 7 * MS)))
    finding = outcome("exposed-communication", run)
    assert finding.evidence["exposed_comm_ns"] == 2 * MS
    assert span(finding) == (500_000, 1_500_000)


@pytest.mark.parametrize(("world", "waits_ns"), [(2, [54_400_000]), (3, [54_400_000, 55 * MS])])
def test_without_the_records_of_some_ranks_communication_is_an_upper_bound(ranks, world, waits_ns):
    run = ranks(*(exchanging(64_400_000 - ns, ns, ns) for ns in waits_ns), world=world)
    (finding,) = evaluate_rules(run, [rules()["exposed-communication"]]).findings
    assert finding.title == "Up to 54.4 ms of each step (84.5%) is exposed communication"
    assert (finding.severity, finding.saving_ns.low) == (Severity.WARNING, 0)
    assert (finding.change, "some ranks are missing" in finding.advice) == (None, True)
    assert isinstance(outcome("straggler-rank", run), Abstained)


def test_a_trace_of_one_rank_is_an_upper_bound_too(ranks):
    cycle = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file="t.gz")
    traces = {"t.gz": made_analysis(steps=[{}, {}], gpu=GPU)}
    first = {"phases": WORK, "records": [cycle], "device": H100}
    finding = outcome("exposed-communication", ranks(first, world=2, traces=traces))
    assert (finding.title.startswith("Up to 2.00 ms"), span(finding)) == (True, (0, 1_500_000))


@pytest.mark.parametrize(("world", "expected"), [(2, False), (1, True)])
def test_a_possible_wait_for_a_rank_without_records_is_not_a_cost_of_logging(
    ranks, world, expected
):
    first = {
        "phases": {"forward": 9 * MS, "logging": 6 * MS},
        "parts": {"logging/self.log": 6 * MS},
    }
    run = ranks(first | {"records": [SyncedLogs(("loss",))]}, world=world)
    assert bool(outcome("slow-logging", run)) is expected


class TestStragglerRank:
    @pytest.fixture
    def judge_ranks(self, ranks):
        return lambda *phases: outcome("straggler-rank", ranks(*({"phases": p} for p in phases)))

    def test_the_rank_that_others_wait_for_is_named_with_its_phase(self, judge_ranks):
        fast = {"data_wait": MS, "forward": 4 * MS, "backward": 8 * MS}
        slow = {"data_wait": 5 * MS, "forward": 4 * MS, "backward": 4 * MS}
        finding = judge_ranks(fast, fast, slow)
        assert (finding.places[0].rank, finding.places[0].phase) == (2, "data_wait")
        assert span(finding) == (3_200_000, 4_800_000)

    @pytest.mark.parametrize("late", [0, 1])
    @pytest.mark.parametrize(("elsewhere", "expected"), [(0, [54]), (25, []), (None, [])])
    def test_a_rank_late_in_forward_names_the_lines_that_take_longer_there(
        self, ranks, late, elsewhere, expected
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

    def test_a_wait_for_the_late_rank_in_self_log_is_not_a_cost_of_logging(self, ranks):
        def logs(data_wait, logging):
            first = exchanging(9 * MS, MS, 1, data_wait=data_wait, logging=logging)
            return first | {"parts": first["parts"] | {"logging/self.log": logging}}

        run = ranks(logs(MS, 6 * MS), logs(6 * MS, MS))
        assert outcome("straggler-rank", run).places[0].rank == 1
        (logging,) = outcome("slow-logging", run)
        assert logging.saving_ns.high < 1.5 * MS

    def test_ranks_that_wait_for_one_another_by_turns_have_no_straggler(self, judge_ranks):
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

    def test_the_records_of_one_rank_alone_say_nothing_of_the_others(self, ranks):
        advice = outcome("straggler-rank", ranks({"phases": {"backward": MS}}, world=4))
        assert advice.reason.startswith("it needs the records of all ranks")

    def test_ranks_without_waits_have_no_finding(self, judge_ranks):
        fast = {"data_wait": MS, "backward": 4 * MS}
        assert judge_ranks(fast, {"data_wait": 5 * MS, "backward": 4 * MS}) is None
