import pytest
from msgspec.structs import replace
from rule_cases import GPU, H100, MS, US, WORK, op, span

from lightning_gpuprof.records.facts import SyncSteps
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.schema import Device, SyncSite

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
CUDA = Device(type="cuda")
LOOP = {
    "trace": {"operators": [op("aten::item", 200, MS), op("aten::sub", 800, 4 * MS)]},
    "model": {"dtypes": {"float32": 2}},
}


def test_a_loop_of_reads_is_named_with_the_operators_around_them(evaluate):
    finding = evaluate(WORK, **LOOP)
    assert finding.evidence["reads_per_step_count"] == 100
    # Beside the reads 400 calls per step, 40 of which the two tensors account for.
    assert span(finding) == (5_400_000, 9 * MS)


def test_without_an_inspection_the_sampled_lines_that_read_are_named(evaluate):
    sampled = (4, "y = x.float()", 60), (5, "right += close.item()", 30), (7, "if loss > best:", 9)
    lines = tuple(
        LineCount("forward", "model.py", at, "step", source, None, None, count)
        for at, source, count in sampled
    )
    finding = evaluate(WORK, records=[HostLines(100, lines, {"forward": 100})], **LOOP)
    assert [at.line for at in finding.places] == [5, 7]
    assert "Replace model.py:5, `right += close.item()`" in finding.advice


def test_reads_inside_an_optimizers_update_are_not_the_users(evaluate):
    # Fused ones read their step counts on a CPU, too: the trace has them in the update.
    read = op("aten::item", 200, 2 * MS) | {"update_count": 200}
    model = {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW", "fused": True}]}
    operators = [read, op("aten::mul", 200, 2 * MS)]
    assert evaluate(WORK, trace={"operators": operators}, model=model) is None
    operators[0] = read | {"update_count": 0}
    assert evaluate(WORK, trace={"operators": operators}, model=model) is not None


def test_the_line_that_blocks_a_gpu_is_named(evaluate):
    finding = evaluate(WORK, records=[SITE], device=CUDA)
    assert (finding.places[0].file, finding.places[0].line) == ("model.py", 7)
    assert span(finding) == (0, 2 * MS)


@pytest.mark.parametrize(
    ("busy_ns", "saved_ns"), [(4 * MS, (300 * US, 7_500 * US)), (19 * MS, (300 * US, 500 * US))]
)
def test_a_loop_of_reads_on_a_gpu_costs_at_most_the_idle_time_of_the_device(
    evaluate, busy_ns, saved_ns
):
    operators = [op("aten::item", 60, MS), op("aten::mm", 2, 4 * MS)]
    trace = {"gpu": {"busy_ns": busy_ns}, "sync_ns": MS, "operators": operators}
    finding = evaluate(WORK, records=[SITE], trace=trace, device=CUDA, model=LOOP["model"])
    assert finding.evidence["reads_per_step_count"] == 30
    # Of 10 ms forward and backward 2.5 are long operators; six tenths of the reads go at least.
    assert span(finding) == saved_ns
    assert "model.py:7" in finding.advice


def test_a_loop_of_reads_costs_nothing_while_the_device_is_busy(evaluate):
    trace = {"gpu": {"busy_ns": 20 * MS}, "operators": [op("aten::item", 60, MS)]}
    assert evaluate(WORK, trace=trace, device=CUDA) is None


def test_a_wait_of_watched_steps_is_no_longer_than_a_step(evaluate):
    # Watched steps are slower: where a trace has waits it knows them better.
    slow = replace(SITE, blocked_ns=200 * MS)
    finding = evaluate(WORK, records=[slow], device=CUDA)
    assert finding.evidence["blocked_ns"] == 10 * MS
    trace = {"gpu": {}, "sync_ns": 6 * MS}
    finding = evaluate(WORK, records=[slow], trace=trace, device=CUDA)
    assert finding.evidence["blocked_ns"] == 3 * MS


def stopping(ahead_ns):
    """Device marks of steps in which the host waits for the device behind forward."""
    columns = {"device_dur": 10 * MS, "device/forward": 2 * MS, "device/backward": 2 * MS}
    return {**columns, "run_ahead/forward": ahead_ns, "run_ahead/backward": US}


def test_marks_alone_show_that_the_host_stops(evaluate):
    finding = evaluate(WORK, columns=stopping(3 * MS), device=CUDA)
    assert finding.title == "The host stops to wait for the device in 100% of steps"
    idle_ns = finding.evidence["device_idle_at_most_ns"]
    assert span(finding) == (0, idle_ns)
    assert 5 * MS < idle_ns < 10 * MS
    assert "inspect SCRIPT" in finding.advice


def test_a_host_that_waits_for_a_busy_device_is_not_held_up(evaluate):
    trace = {"gpu": {"busy_ns": 20 * MS, "steps": 2}}
    assert evaluate(WORK, columns=stopping(3 * MS), device=CUDA, trace=trace) is None


def test_reads_that_would_stop_a_gpu_are_a_fact_on_a_cpu(evaluate):
    finding = evaluate(WORK, records=[SITE])
    assert finding.title == "3.0 reads per step would each stop the host on a GPU"
    assert span(finding) == (0, 0)


@pytest.mark.parametrize("device", [Device(type="cpu"), CUDA])
def test_is_silent_if_inspected_steps_had_no_syncs(evaluate, device):
    assert evaluate(WORK, records=[SyncSteps(3)], device=device) is None


def test_idle_time_for_other_reasons_than_syncs_is_not_saved(evaluate):
    waits = {"host_sync": 2 * MS, "dependency": 10 * MS}
    idle = [{"cause": cause, "total_ns": ns} for cause, ns in waits.items()]
    trace = {"gpu": {"idle_ns": 12 * MS}, "idle": idle, "sync_ns": 16 * MS}
    finding = evaluate(WORK, trace=trace, device=H100)
    assert finding.evidence["blocked_ns"] == 8 * MS
    assert span(finding) == (MS, MS)


def test_the_change_for_waits_for_the_whole_device_is_a_wait_for_a_stream(evaluate):
    at = {"file": "train.py", "line": 7}
    sync = {"name": "hipDeviceSynchronize", "kind": "device", "blocked_ns": 2 * MS, "where": at}
    trace = {"gpu": GPU, "sync_ns": 6 * MS, "syncs": [sync, sync]}
    finding = evaluate(WORK, trace=trace, device=H100)
    assert finding.advice.startswith("Each step waits 2.00 ms for the whole device (1 x hip")
    assert finding.evidence["device_wide_ns"] == 2 * MS
    assert (finding.places[0].file, finding.places[0].line) == ("train.py", 7)
    assert "current_stream().synchronize()" in finding.change
    trace["syncs"] = [{**sync, "kind": "stream"}]
    assert "detach" in evaluate(WORK, trace=trace, device=H100).change


def test_a_copy_from_pageable_memory_is_not_a_read_of_a_value(evaluate):
    trace = {"gpu": {"idle_ns": 12 * MS}, "sync_ns": 16 * MS, "upload_wait_ns": 16 * MS}
    assert evaluate(WORK, trace=trace, device=H100) is None
    trace["upload_wait_ns"] = 10 * MS
    finding = evaluate(WORK, trace=trace, device=H100)
    assert finding.evidence["blocked_ns"] == 3 * MS
    assert span(finding)[1] == 3 * MS
