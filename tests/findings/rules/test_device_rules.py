"""Rules about a GPU and the traces themselves."""

import pytest
from made_records import memory
from rule_cases import GPU, H100, MS, US, WORK, category, op, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Advice, ProfilerCycle

GB = 10**9


def test_small_kernels_cost_the_gaps_between_them(judge):
    trace = {
        "gpu": GPU,
        "thin_kernels": {"count": 800, "total_ns": MS, "count_frac": 0.8},
        "idle": [
            {"cause": "launch_latency", "total_ns": 2 * MS, "count": 1},
            {"cause": "host_python", "total_ns": 4 * MS, "count": 1},
            {"cause": "host_data_wait", "total_ns": 9 * MS, "count": 1},
        ],
        "kernels": [{"name": "add", "category": "elementwise", "count": 9, "mean_ns": 2_000}],
    }
    finding = judge("small-kernels", WORK, trace=trace, device=H100)
    assert span(finding) == (MS, 3 * MS)
    assert finding.places[0].kernel == "add"


THIN = {
    "gpu": GPU | {"compute_ns": 2 * MS, "busy_ns": 2 * MS},
    "thin_kernels": {"count": 180, "total_ns": MS, "count_frac": 0.9},
    "launches": {"kernel_count": 200, "overhead": {"median_ns": 5 * US}},
    "idle": [
        {"cause": "host_operator", "total_ns": 24 * MS, "count": 1},
        {"cause": "host_region", "total_ns": 4 * MS, "count": 1},
    ],
}
"""Two steps of 90 thin kernels each, before which the device idles for 14 ms of each."""
HOST_BOUND = {"device_dur": 20 * MS, "device/forward": 20 * MS, "run_ahead/forward": US}


@pytest.fixture
def thin(judge):
    """Judge the kernels of `THIN`, with so much of its trace changed."""

    def judged(phases=WORK, **changed):
        options = {"device": H100, "columns": HOST_BOUND, "trace": THIN | changed}
        return judge("small-kernels", phases, **options)

    return judged


def test_captured_kernels_still_run_and_what_the_trainer_does_stays(thin):
    phases = {**WORK, "optimizer_step": 10 * MS}
    finding = thin(phases)
    # Of forward and backward 10 ms less 1 of kernels; the launching calls of 90 go at least.
    assert span(finding) == (450 * US, 9 * MS)
    assert "idles 14.0 ms" in finding.title
    updates = [{"name": "adam", "category": "optimizer", "count": 80, "mean_ns": 3_000}]
    assert span(thin(phases, kernels=updates)) == (250 * US, 9 * MS)


@pytest.mark.parametrize(("reads", "reported"), [(38, True), (160, True), (170, False)])
def test_the_kernels_of_a_loop_of_reads_are_host_syncs(thin, reads, reported):
    # Of 80 reads a step the other 20 kernels are thin in half of the cases, of 85 in a third.
    assert (thin(operators=[op("aten::item", reads, MS)]) is not None) == reported


@pytest.mark.parametrize(("busy_ns", "high"), [(14 * MS, 3 * MS), (18 * MS, MS), (24 * MS, None)])
def test_no_more_is_saved_than_the_device_is_idle(thin, busy_ns, high):
    finding = thin(gpu=THIN["gpu"] | {"busy_ns": busy_ns})
    assert (finding and finding.saving_ns.high) == high
    assert finding is None or finding.evidence["gaps_ns"] == high


@pytest.mark.parametrize(
    "together",
    [
        {"launches": {"kernel_count": 200, "graph_count": 4, "graphed_thin_count": 90}},
        {"operators": [{"name": "aten::_cudnn_rnn_backward", "count": 2, "device_count": 90}]},
    ],
)
def test_short_kernels_that_one_call_launches_do_not_count(thin, together):
    assert thin(**together) is None


def test_a_part_that_is_a_graph_already_is_not_to_be_captured_again(thin):
    finding = thin(launches=THIN["launches"] | {"graph_count": 4, "graphed_thin_count": 40})
    assert finding.change is None
    assert finding.advice.startswith("Part of the step is a graph already")
    assert finding.saving_ns.low == 70 * 5 * US


PRODUCTS = {"gpu": GPU, "categories": [category("gemm", 12 * MS)], "tensor_core_frac": 0.0}


def test_low_precision_is_proposed_with_the_ratio_of_the_devices_peaks(judge):
    def judged(precision):
        options = {"trace": PRODUCTS, "device": H100, "trainer": {"precision": precision}}
        return judge("low-precision-unused", WORK, **options)

    assert span(judged("32-true")) == (2 * MS, 5 * MS)
    assert judged("bf16-mixed") is None


def test_shorter_kernels_save_nothing_in_steps_that_wait_for_the_host(judge):
    ahead = [US] * 75 + [6 * MS] * 25
    columns = {"device_dur": 10 * MS, "device/forward": 10 * MS, "run_ahead/forward": ahead}
    options = {"device": H100, "trainer": {"precision": "32-true"}, "columns": columns}
    finding = judge("low-precision-unused", WORK, trace=PRODUCTS, **options)
    assert span(finding) == (MS // 2, 1_250_000)
    trace = {"gpu": GPU, "categories": [category("gemm", 4 * MS), category("elementwise", 6 * MS)]}
    finding = judge("memory-bound-kernels", WORK, trace=trace, **options)
    assert span(finding) == (187_500, 562_500)
    options["columns"] = columns | {"run_ahead/forward": US}
    assert judge("low-precision-unused", WORK, trace=PRODUCTS, **options) is None


def test_memory_that_is_nearly_full_and_was_retried_is_critical(judge):
    full = memory(78 * GB, peak_allocated_bytes=75 * GB, total_bytes=80 * GB, alloc_retries=3)
    finding = judge("vram-pressure", WORK, records=[full], device=H100)
    assert finding.severity is Severity.CRITICAL
    assert "retried 3 times" in finding.title


@pytest.mark.parametrize(
    ("advised", "reported"), [(4, "Lower the batch size and"), (1, "size to 1 ")]
)
def test_memory_that_ran_out_is_not_reported_as_unused(judge, advised, reported):
    advice = Advice(step=50, batch_size=2, suggested_batch_size=advised)
    records = [memory(GB, total_bytes=80 * GB, alloc_retries=1), advice]
    finding = judge("vram-pressure", WORK, records=records, device=H100)
    assert "retried once" in finding.title
    assert reported in finding.advice
    assert judge("unused-vram", WORK, records=records, device=H100) is None


def test_memory_of_other_processes_fills_the_device_too(judge):
    def judged(free):
        held = memory(60 * GB, total_bytes=80 * GB, free_bytes=free * GB)
        return judge("vram-pressure", WORK, records=[held], device=H100)

    assert judged(19) is None
    finding = judged(5)
    assert finding.severity is Severity.WARNING
    assert finding.evidence["others_bytes"] == 15 * GB
    assert "14.0 GiB are in use beside it" in finding.advice


def test_opaque_regions_are_a_fact(judge):
    operators = [op("Torch-Compiled Region: 0/0", 2, 9 * MS), op("aten::mm", 2, MS)]
    finding = judge("opaque-compiled-regions", WORK, trace={"operators": operators})
    assert finding.evidence["opaque_frac"] == pytest.approx(0.9)
    assert span(finding) == (0, 0)


def test_a_trace_beyond_what_viewers_open_proposes_fewer_steps(judge):
    cycle = {"cycle": 1, "first_step": 10, "last_step": 19, "trace_file": "t.gz"}
    large = ProfilerCycle(**cycle, trace_bytes=2 * GB)
    finding = judge("trace-too-large", WORK, records=[large])
    assert finding.change == "GpuProfCallback(active=2, with_stack=False, record_shapes=False)"


def test_a_trace_of_a_gpu_run_without_anything_of_the_gpu_says_so(judge):
    empty = {"quality": {"lost_kernels": 0, "launch_count": 0}}
    finding = judge("lost-kernels", WORK, trace=empty, device=H100)
    assert finding.severity is Severity.WARNING
    assert finding.evidence == {"device_events_count": 0, "launches_count": 0}
    assert "KINETO_LOG_LEVEL=0" in finding.advice
    assert judge("lost-kernels", WORK, trace={**empty, "gpu": GPU}, device=H100) is None
    assert judge("lost-kernels", WORK, trace=empty) is None, "on a CPU there is nothing to lack"


def test_lost_kernels_are_counted(judge):
    def judged(lost):
        quality = {"lost_kernels": lost, "launch_count": 1_000}
        return judge("lost-kernels", WORK, trace={"quality": quality})

    assert judged(50).severity is Severity.WARNING
    assert judged(50).evidence["lost_kernels_frac"] == 0.05
    assert judged(0) is None


def test_idle_time_for_other_reasons_than_syncs_is_not_saved(judge):
    waits = {"host_sync": 2 * MS, "dependency": 10 * MS}
    idle = [{"cause": cause, "total_ns": ns} for cause, ns in waits.items()]
    trace = {"gpu": {"idle_ns": 12 * MS}, "idle": idle, "sync_ns": 16 * MS}
    finding = judge("host-sync", WORK, trace=trace, device=H100)
    assert finding.evidence["blocked_ns"] == 8 * MS
    assert span(finding) == (MS, MS)


def test_the_profilers_own_wait_after_the_last_step_does_not_count(judge):
    def sync(start_ns, blocked_ns, operator):
        return {"start_ns": start_ns, "blocked_ns": blocked_ns, "operator": operator}

    marks = [{"start_ns": 0, "dur_ns": 10 * MS}, {"start_ns": 10 * MS, "dur_ns": 10 * MS}]
    syncs = [sync(5 * MS, 2 * MS, "aten::item"), sync(15 * MS, 2 * MS, None)]
    syncs.append(sync(21 * MS, 50 * MS, None))
    trace = {"gpu": GPU, "sync_ns": 54 * MS, "syncs": syncs, "steps": marks}
    finding = judge("host-sync", WORK, trace=trace, device=H100)
    assert finding.evidence["blocked_ns"] == 2 * MS


def test_the_change_for_waits_for_the_whole_device_is_a_wait_for_a_stream(judge):
    at = {"file": "train.py", "line": 7}
    sync = {"name": "hipDeviceSynchronize", "kind": "device", "blocked_ns": 2 * MS, "where": at}
    trace = {"gpu": GPU, "sync_ns": 6 * MS, "syncs": [sync, sync]}
    finding = judge("host-sync", WORK, trace=trace, device=H100)
    assert finding.advice.startswith("Each step waits 2.00 ms for the whole device (1 x hip")
    assert finding.evidence["device_wide_ns"] == 2 * MS
    assert (finding.places[0].file, finding.places[0].line) == ("train.py", 7)
    assert "current_stream().synchronize()" in finding.change
    trace["syncs"] = [{**sync, "kind": "stream"}]
    assert "detach" in judge("host-sync", WORK, trace=trace, device=H100).change


def test_a_copy_from_pageable_memory_is_not_a_read_of_a_value(judge):
    trace = {"gpu": {"idle_ns": 12 * MS}, "sync_ns": 16 * MS, "upload_wait_ns": 16 * MS}
    assert judge("host-sync", WORK, trace=trace, device=H100) is None
    trace["upload_wait_ns"] = 10 * MS
    finding = judge("host-sync", WORK, trace=trace, device=H100)
    assert finding.evidence["blocked_ns"] == 3 * MS
    assert span(finding)[1] == 3 * MS
