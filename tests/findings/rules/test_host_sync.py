import pytest
from rule_cases import MS, US, WORK, op, span

from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.schema import SYNC_STEPS_NOTE, Device, Note, SyncSite

SITE = SyncSite(
    file="model.py",
    line=7,
    function="step",
    source="x.item()",
    owner="user",
    operation="item",
    count=30,
    steps_watched=10,
    blocked_ns=20 * MS,
)


def test_a_loop_of_reads_is_named_with_the_operators_around_them(judge):
    operators = [op("aten::item", 200, MS), op("aten::sub", 800, 4 * MS)]
    finding = judge(
        "host-sync",
        WORK,
        trace={"operators": operators},
        model={"dtypes": {"float32": 2}, "optimizers": [{"class": "AdamW", "fused": True}]},
    )
    assert finding.evidence["reads_per_step_count"] == 100
    # Beside the reads 400 calls per step, 40 of which the two tensors account for.
    assert span(finding) == (5_400_000, 9 * MS)


def test_longer_operators_in_the_loop_go_with_it(judge):
    operators = [op("aten::item", 200, MS), op("aten::sub", 800, 16 * MS)]
    finding = judge(
        "host-sync",
        WORK,
        trace={"operators": operators},
        model={"dtypes": {"float32": 2}, "optimizers": [{"class": "AdamW", "fused": True}]},
    )
    # Of 10 ms nine tenths of what is not in the 8 ms of long calls, and these; of each of the
    # 400 calls 10 us go at least, as with short ones.
    assert span(finding) == (3_240_000, 9_800_000)


def test_the_reads_of_an_unfused_optimizer_are_not_the_users(judge):
    operators = [op("aten::item", 200, 2 * MS), op("aten::mul", 200, 2 * MS)]
    model = {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW"}]}
    assert judge("host-sync", WORK, trace={"operators": operators}, model=model) is None


def test_the_reads_inside_of_any_optimizers_update_are_not_the_users(judge):
    # Fused ones read their step counts on a CPU, too: the trace has them in the update.
    read = op("aten::item", 200, 2 * MS) | {"update_count": 200}
    model = {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW", "fused": True}]}
    operators = [read, op("aten::mul", 200, 2 * MS)]
    assert judge("host-sync", WORK, trace={"operators": operators}, model=model) is None
    operators[0] = read | {"update_count": 0}
    assert judge("host-sync", WORK, trace={"operators": operators}, model=model) is not None


def test_the_line_that_blocks_a_gpu_is_named(judge):
    finding = judge("host-sync", WORK, records=[SITE], device=Device(type="cuda"))
    assert (finding.where[0].file, finding.where[0].line) == ("model.py", 7)
    assert span(finding) == (0, 2 * MS)


def test_a_replay_of_the_trace_without_syncs_says_what_they_cost(judge):
    trace = {
        "gpu": {"span_ns": 20 * MS},
        "sync_ns": 6 * MS,
        "what_if": {"savings": [{"part": "sync", "saved_ns": 4 * MS}]},
    }
    finding = judge("host-sync", WORK, trace=trace, device=Device(type="cuda"))
    assert finding.evidence["blocked_ns"] == 3 * MS
    assert span(finding) == (1_400 * US, 2_600 * US)


def test_reads_that_would_stop_a_gpu_are_a_fact_on_a_cpu(judge):
    finding = judge("host-sync", WORK, records=[SITE])
    assert finding.title == "3.0 reads of values per step would each stop the host on a GPU"
    assert span(finding) == (0, 0)


def test_abstains_when_nobody_looked(judge):
    assert isinstance(judge("host-sync", WORK), Abstained)


@pytest.mark.parametrize("device", [Device(type="cpu"), Device(type="cuda")])
def test_finds_nothing_where_steps_were_watched_and_none_synced(judge, device):
    watched = Note(step=8, name=SYNC_STEPS_NOTE, value=3)
    assert judge("host-sync", WORK, records=[watched], device=device) is None
