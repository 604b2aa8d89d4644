"""Ascend NPUs' `trace_view.json`: made up, after the layout that torch_npu's documents show."""

import json

import pytest
from analyzed import timeline_names

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.document import encode
from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import CATEGORIES

PYTHON, CANN, HARDWARE, COMMUNICATION, OVERLAP = 1, 2, 3, 4, 5
PROCESSES = {
    PYTHON: "Python",
    CANN: "CANN",
    HARDWARE: "Ascend Hardware",
    COMMUNICATION: "Communication",
    OVERLAP: "Overlap Analysis",
}
BEGUN_US = 1_704_161_511_420_306


def slice_of(pid, tid, name, ts, dur, *, cat=None, **args):
    """An event as torch_npu writes it: the time is text."""
    event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": f"{BEGUN_US + ts}.250"}
    return event | {"dur": dur, "args": args} | ({"cat": cat} if cat else {})


def step(number):
    at, connection = 1_000 * number, 10 * number
    return [
        slice_of(PYTHON, 9, f"ProfilerStep#{number}", at, 1_000, cat="user_annotation"),
        slice_of(PYTHON, 9, "aten::mm", at + 10, 50, cat="cpu_op"),
        slice_of(PYTHON, 9, "Enqueue", at + 20, 5, cat="enqueue"),
        slice_of(CANN, 9, "AscendCL@aclnnMm", at + 22, 20, connection_id=connection, level="acl"),
        task(at + 100, 300, "aclnnMm_MatMulV3", "AI_CORE", connection),
        task(at + 400, 100, "EVENT_WAIT", "EVENT_WAIT", connection + 1),
        task(at + 500, 50, "MEMCPY_ASYNC", "PCIE_DMA_SQE", connection + 2,
             operation="device to host", **{"size(B)": 4096}),
        slice_of(COMMUNICATION, 2, "hcom_allReduce__661_0_1", at + 600, 80, connection_id=5),
        slice_of(COMMUNICATION, 3, "Memcpy", at + 610, 10),
        slice_of(OVERLAP, 1, "Computing", at + 100, 300),
    ]  # fmt: skip


def task(ts, dur, name, kind, connection, **args):
    where = {"Task Type": kind, "connection_id": connection, "Stream Id": 46}
    return slice_of(HARDWARE, 46, name, ts, dur, **where, **args)


@pytest.fixture
def path(write_text):
    names = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in PROCESSES.items()
    ]
    stream = {"ph": "M", "name": "thread_name", "pid": HARDWARE, "tid": 46}
    names.append(stream | {"args": {"name": "Stream 46"}})
    events = [*names, *(event for number in range(3) for event in step(number))]
    # An interrupted export lacks the end of the list.
    return write_text(json.dumps(events)[:-1], name="trace_view.json")


def test_processes_say_what_an_event_is(path):
    timeline = open_timeline(path)
    assert timeline.source == "ascend"
    host = dict(zip(timeline_names(timeline, timeline.host), timeline.host.category, strict=True))
    assert {name: CATEGORIES[kind] for name, kind in host.items() if "#" not in name} == {
        "aten::mm": "cpu_op",
        "AscendCL@aclnnMm": "cuda_runtime",
    }
    device = zip(
        timeline_names(timeline, timeline.device),
        timeline.device.category.tolist(),
        timeline.device.dur_ns.tolist(),
        timeline.device.num_bytes.tolist(),
        strict=True,
    )
    assert {(name, CATEGORIES[kind], dur, size) for name, kind, dur, size in device} == {
        ("aclnnMm_MatMulV3", "kernel", 300_000, -1),
        ("Memcpy DtoH", "gpu_memcpy", 50_000, 4096),
        ("hcom_allReduce__661_0_1", "kernel", 80_000, -1),
    }
    assert timeline.origin_ns == BEGUN_US * 1_000 + 250


def test_the_devices_time_is_that_of_its_tasks(path):
    analysis = analyze_file(path)
    assert (analysis.gpu.steps, analysis.gpu.busy_ns) == (3, 3 * 430_000)
    assert (analysis.gpu.compute_ns, analysis.gpu.comm_ns) == (900_000, 240_000)
    assert analysis.device.vendor == "huawei"
    assert analysis.launches.count == 3
    assert [row.name for row in analysis.operators] == ["aten::mm"]


def test_matrix_units_are_not_measured_by_names_of_another_maker(path):
    analysis = analyze_file(path)
    assert [row.category for row in analysis.kernels] == ["gemm", "communication"]
    assert analysis.tensor_core_frac is None
    assert {row.tensor_cores for row in analysis.kernels} == {None}


def test_the_document_speaks_of_an_npu_and_of_nothing_that_it_lacks(path):
    document = trace_document(analyze_file(path))
    assert document.section("limit").body[0].lines == ("NPU 43% busy: it waits for the host.",)
    assert b"CUDA" not in encode(document)
