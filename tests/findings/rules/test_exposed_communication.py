import pytest
from analyzed import made_analysis
from rule_cases import GPU, H100, MS, WORK, exchanging, outcome, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.schema import ProfilerCycle


def test_exposed_communication_is_judged_only_with_several_ranks(evaluate):
    assert evaluate(WORK, trace={"gpu": GPU}, device=H100) is None
    finding = evaluate(WORK, trace={"gpu": GPU}, device=H100, world_size=2)
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
    evaluate, strategy, kernels, advice, proposed
):
    trace, trainer = {"gpu": GPU, "kernels": kernels}, {"strategy": strategy}
    run = {"trace": trace, "trainer": trainer, "device": H100, "world_size": 2}
    finding = evaluate(WORK, **run)
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
    assert finding.title == "Up to 54.4 ms of each step (84%) is exposed communication"
    assert (finding.severity, finding.saving_ns.low) == (Severity.WARNING, 0)
    assert (finding.change, "some ranks are missing" in finding.advice) == (None, True)
    assert isinstance(outcome("straggler-rank", run), Abstained)


def test_a_trace_of_one_rank_is_an_upper_bound_too(ranks):
    cycle = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file="t.gz")
    traces = {"t.gz": made_analysis(steps=[{}, {}], gpu=GPU)}
    first = {"phases": WORK, "records": [cycle], "device": H100}
    finding = outcome("exposed-communication", ranks(first, world=2, traces=traces))
    assert (finding.title.startswith("Up to 2.00 ms"), span(finding)) == (True, (0, 1_500_000))
