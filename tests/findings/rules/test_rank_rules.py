"""Rules about several ranks."""

import numpy as np
import pytest
from rule_cases import MS, WORK, outcome, span

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.rule import rules
from lightning_gpuprof.records.facts import SyncedLogs
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Device, ProfilerCycle

H100 = Device(type="cuda", name="NVIDIA H100 80GB HBM3", capability="9.0")
GPU = {"span_ns": 20 * MS, "exposed_comm_ns": 4 * MS, "comm_ns": 8 * MS}


def test_exposed_communication_is_judged_only_with_several_ranks(judge):
    assert judge("exposed-communication", WORK, trace={"gpu": GPU}, device=H100) is None
    finding = judge("exposed-communication", WORK, trace={"gpu": GPU}, device=H100, world_size=2)
    assert finding.evidence["exposed_comm_ns"] == 2 * MS
    assert span(finding) == (500_000, 1_500_000)


def exchange(name, total_ns=MS):
    return {"name": name, "category": "communication", "total_ns": total_ns}


GATHER, REDUCE = "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@pytest.mark.parametrize(
    ("strategy", "kernels", "said", "proposed"),
    [
        ("DDPStrategy", [exchange(GATHER)], "SyncBatchNorm", False),
        ("FSDPStrategy", [], "forward_prefetch", False),
        ("DDPStrategy", [exchange(GATHER, 5), exchange(REDUCE, 4), exchange(REDUCE, 4)], "", True),
    ],
)
def test_what_is_gathered_is_told_by_the_strategy_and_by_most_of_the_time(
    judge, strategy, kernels, said, proposed
):
    trace, trainer = {"gpu": GPU, "kernels": kernels}, {"strategy": strategy}
    run = {"trace": trace, "trainer": trainer, "device": H100, "world_size": 2}
    finding = judge("exposed-communication", WORK, **run)
    assert said in finding.advice
    assert bool(finding.change) is proposed


def test_communication_is_what_the_last_rank_still_waits_whatever_others_wait(
    make_session, write_run
):
    for rank, waits in enumerate([2 * MS, 7 * MS]):
        parts = {"backward/gradient exchange": waits}
        session = make_session(
            {"forward": 11 * MS - waits, "backward": waits}, parts=parts, rank=rank, world_size=2
        )
        run = write_run(session, rank=rank)
    finding = outcome("exposed-communication", analyze_run(read_run(run), {}))
    assert finding.evidence["exposed_comm_ns"] == 2 * MS
    assert span(finding) == (500_000, 1_500_000)


@pytest.mark.parametrize(("world", "waits_ms"), [(2, [54.4]), (3, [54.4, 55])])
def test_without_the_records_of_some_ranks_there_is_so_much_communication_at_most(
    make_session, write_run, world, waits_ms
):
    for rank, ms in enumerate(waits_ms):
        ns = round(ms * MS)
        session = make_session(
            {"forward": round(64.4 * MS) - ns, "backward": ns},
            parts={"backward/gradient exchange": ns},
            rank=rank,
            world_size=world,
        )
        run = write_run(session, rank=rank)
    results = analyze_run(read_run(run), {})
    (finding,) = evaluate_rules(results, [rules()["exposed-communication"]]).found
    assert finding.title == "Up to 54.4 ms of each step (84.5%) is exposed communication"
    assert (finding.severity, finding.saving_ns.low) == (Severity.WARNING, 0)
    assert (finding.change, "some ranks are missing" in finding.advice) == (None, True)
    assert isinstance(outcome("straggler-rank", results), Abstained)


def test_the_trace_of_one_rank_is_not_sure_either_without_the_records_of_others(
    make_session, write_run
):
    cycle = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file="t.gz")
    run = write_run(make_session(WORK, records=[cycle], device=H100, world_size=2))
    traces = {"t.gz": {"steps": [{}, {}], "gpu": GPU}}
    finding = outcome("exposed-communication", analyze_run(read_run(run), traces))
    assert (finding.title.startswith("Up to 2.00 ms"), span(finding)) == (True, (0, 1_500_000))


@pytest.mark.parametrize(("world", "told"), [(2, False), (1, True)])
def test_what_may_be_a_wait_for_a_rank_without_records_is_not_told_to_log_less(
    make_session, write_run, world, told
):
    phases, parts = {"forward": 9 * MS, "logging": 6 * MS}, {"logging/self.log": 6 * MS}
    synced = [SyncedLogs(("loss",))]
    run = write_run(make_session(phases, parts=parts, records=synced, world_size=world))
    assert bool(outcome("slow-logging", analyze_run(read_run(run), {}))) is told


class TestStragglerRank:
    @pytest.fixture
    def judge_ranks(self, make_session, write_run):
        def judged(*phases):
            for rank, one in enumerate(phases):
                run = write_run(make_session(one, rank=rank, world_size=len(phases)), rank=rank)
            return outcome("straggler-rank", analyze_run(read_run(run), {}))

        return judged

    def test_the_rank_that_others_wait_for_is_named_with_its_phase(self, judge_ranks):
        fast = {"data_wait": MS, "forward": 4 * MS, "backward": 8 * MS}
        slow = {"data_wait": 5 * MS, "forward": 4 * MS, "backward": 4 * MS}
        finding = judge_ranks(fast, fast, slow)
        assert (finding.where[0].rank, finding.where[0].phase) == (2, "data_wait")
        assert span(finding) == (3_200_000, 4_800_000)

    @pytest.mark.parametrize("late", [0, 1])
    @pytest.mark.parametrize(("elsewhere", "told"), [(0, [54]), (25, []), (None, [])])
    def test_a_rank_late_in_forward_has_the_lines_that_are_longer_there(
        self, make_session, write_run, late, elsewhere, told
    ):
        def seen(augment):
            model = LineCount("forward", "t.py", 46, "step", "self.net(x)", None, "model", 40)
            own = LineCount("forward", "t.py", 54, "augment", "x = roll(x)", None, None, augment)
            lines = HostLines(200, (model, own)[: 1 + (augment > 0)], {"forward": 40 + augment})
            return (lines,)

        other = () if elsewhere is None else seen(elsewhere)
        for rank in (0, 1):
            forward = 5 * MS if rank == late else MS
            session = make_session(
                {"data_wait": MS, "forward": forward, "backward": 9 * MS - forward},
                parts={"backward/gradient exchange": 7 * MS - forward},
                records=seen(30) if rank == late else other,
                rank=rank,
                world_size=2,
            )
            run = write_run(session, rank=rank)
        (finding,) = evaluate_rules(
            analyze_run(read_run(run), {}), [rules()["straggler-rank"]]
        ).found
        assert (finding.where[0].rank, finding.where[0].phase) == (late, "forward")
        assert [at.line for at in finding.where if at.file] == told

    def test_who_waits_for_it_in_self_log_is_not_told_to_log_less(self, make_session, write_run):
        late = {"data_wait": 6 * MS, "forward": 9 * MS, "logging": MS}
        waits = {"data_wait": MS, "forward": 9 * MS, "logging": 6 * MS}
        for rank, phases in enumerate((waits, late)):
            parts = {"logging/self.log": phases["logging"], "backward/gradient exchange": 1}
            phases = {**phases, "backward": MS}
            run = write_run(make_session(phases, parts=parts, rank=rank, world_size=2), rank=rank)
        results = analyze_run(read_run(run), {})
        assert outcome("straggler-rank", results).where[0].rank == 1
        (logging,) = outcome("slow-logging", results)
        assert logging.saving_ns.high < 1.5 * MS

    def test_ranks_that_wait_for_one_another_by_turns_have_no_straggler(self, judge_ranks):
        mine = np.arange(100) % 2 == 0
        one, other = np.where(mine, 9 * MS, 3 * MS), np.where(mine, 3 * MS, 9 * MS)
        finding = judge_ranks(
            {"forward": one, "backward": other}, {"forward": other, "backward": one}
        )
        assert "for changing ranks" in finding.title
        assert [(where.rank, where.phase) for where in finding.where] == [(None, "forward")]
        assert span(finding) == (0, 3 * MS)

    def test_turns_that_no_batch_explains_may_be_the_machines_and_claim_no_time(self, judge_ranks):
        mine = np.arange(100) % 2 == 0
        one, other = np.where(mine, 9 * MS, 3 * MS), np.where(mine, 3 * MS, 9 * MS)
        finding = judge_ranks(
            {"optimizer_step": one, "backward": other}, {"optimizer_step": other, "backward": one}
        )
        assert (finding.severity, span(finding)) == (Severity.INFO, (0, 0))

    def test_the_records_of_one_rank_alone_say_nothing_of_the_others(self, make_session, write_run):
        run = write_run(make_session({"backward": MS}, world_size=4))
        said = outcome("straggler-rank", analyze_run(read_run(run), {}))
        assert said.reason.startswith("it takes the records of all ranks")

    def test_ranks_that_nobody_waited_for_are_left_alone(self, judge_ranks):
        fast = {"data_wait": MS, "backward": 4 * MS}
        assert judge_ranks(fast, {"data_wait": 5 * MS, "backward": 4 * MS}) is None
