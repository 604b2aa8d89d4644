"""Chrome traces of other tools and devices: named, with what was passed over."""

import pytest

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.traces import open_timeline


def slices(category, *names, dur=1_000, pid=7, **more):
    """Events that last 1 ms, one after the other; without a category where it is None."""
    events = []
    for index, name in enumerate(names):
        event = {"ph": "X", "name": name, "pid": pid, "tid": 1, "ts": index * dur, "dur": dur}
        events.append(event | ({"cat": category} if category else {}) | more)
    return events


def process(pid, name):
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def verdict(path):
    document = trace_document(analyze_file(path))
    return document.verdict


CASES = {
    "VizTracer": (slices("FEE", "main", "fit"), {"viztracer_metadata": {"version": "1"}}),
    "a browser": (slices("devtools.timeline,v8", "RunTask", "Paint"), {}),
    "torch.profiler on an Intel Gaudi (HPU)": (slices("hpu_op", "gemm", "relu"), {}),
    "torch.profiler on an MTIA": (slices("mtia_ccp_events", "job", "job"), {}),
    "ONNX Runtime": (slices("Session", "model_run", "SequentialExecutor::Execute"), {}),
    "a legacy torch profiler (torch.autograd.profiler)": (
        slices(None, "mm", "add", pid="CPU functions"),
        {},
    ),
    "clang's -ftime-trace": (slices(None, "ExecuteCompiler", "Source"), {"beginningOfTime": 1}),
    "Ray": (slices("task::train", "task::train", "task::train"), {}),
}


@pytest.mark.parametrize("tool", CASES)
def test_the_tool_is_named_with_what_was_passed_over(write_trace, tool):
    events, header = CASES[tool]
    path = write_trace(events, **header)

    timeline = open_timeline(path)

    assert timeline.tool == tool
    (kind,) = timeline.passed_over
    assert (kind.count, kind.total_ns) == (2, 2_000_000)
    said = verdict(path)
    assert said.title == f"GPU: not known: written by {tool}"
    assert f"2.00 ms of events were passed over, in kinds not known here: `{kind.kind}`" in (
        said.sentence
    )


def test_events_without_a_category_are_of_their_process(write_trace):
    events = [process(7, "Accelerator"), *slices(None, "a", "b"), *slices(None, "c", pid=8)]
    timeline = open_timeline(write_trace(events))
    assert [(kind.kind, kind.count) for kind in timeline.passed_over] == [
        ("Accelerator", 2),
        ("process 8", 1),
    ]
    assert timeline.tool is None


def test_begins_and_ends_make_durations(write_trace):
    ends = [("B", "outer", 0), ("B", "inner", 10), ("E", "", 30), ("E", "", 100), ("E", "", 110)]
    events = [
        {"ph": ph, "name": name, "cat": "work", "pid": 1, "tid": 1, "ts": ts}
        for ph, name, ts in ends
    ]
    (kind,) = open_timeline(write_trace(events)).passed_over
    assert (kind.count, kind.total_ns, kind.example) == (2, 120_000, "outer")


def test_work_of_unknown_kinds_beside_operators_is_no_trace_without_a_gpu(write_trace, op):
    work = [
        event | {"args": {"stream": 3}} for event in slices("npu_kernel", "conv", "matmul", dur=1)
    ]
    path = write_trace([op(dur=5_000), *work])
    said = verdict(path)
    assert said.title == "GPU: not known"
    assert "`npu_kernel`" in said.sentence
    assert analyze_file(path).warnings == (
        "Left out, because their kinds are not known here: 2 events of `npu_kernel` (2.00 µs).",
    )


def test_a_few_short_events_of_unknown_kinds_beside_operators_are_not_mentioned(write_trace, op):
    path = write_trace([op(dur=5_000), *slices("python_gc", "collect", dur=2)])
    assert open_timeline(path).warnings == ()
    assert verdict(path).title == "No GPU: the trace has only host events"


@pytest.mark.parametrize(
    ("operator", "device", "remedy"),
    [
        ("aten::_mps_convolution", "an Apple GPU (MPS)", "torch.mps.profiler"),
        ("npu::npu_format_cast", "an Ascend NPU", "torch_npu.profiler"),
        ("hpu::cast", "an Intel Gaudi (HPU)", "ProfilerActivity.HPU"),
        ("xla::to_device", "an XLA device, such as a TPU", "xplane.pb"),
        ("aten::cudnn_convolution", "a GPU", "ProfilerActivity.CUDA"),
        ("aten::_flash_attention_forward", "a GPU", "ProfilerActivity.CUDA"),
    ],
)
def test_operators_of_a_device_that_was_not_recorded_name_it(
    write_trace, op, operator, device, remedy
):
    said = verdict(write_trace([op(), op(operator, ts=20)]))
    assert said.title == f"GPU: not recorded, but operators ran on {device}"
    assert remedy in said.sentence


def test_attention_on_a_cpu_is_no_sign_of_a_gpu(write_trace, op):
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert verdict(write_trace([op(), op(name, ts=20)])).title.startswith("No GPU")


def test_a_file_of_another_tool_is_not_called_kinetos(write_trace):
    document = trace_document(analyze_file(write_trace(slices("FEE", "main"))))
    assert document.subject.line == "a Chrome trace of VizTracer"
