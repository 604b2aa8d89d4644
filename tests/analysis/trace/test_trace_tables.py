"""Operators, launches, syncs, copies, kernels, steps and quality on small traces."""

import pytest
from analyzed import analyze_timeline

from lightning_gpuprof.analysis.trace.trace_window import steady_window, step_window
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.report.trace_figures import conversion_figures
from lightning_gpuprof.traces import ReadOptions, open_timeline


def test_own_time_leaves_out_operators_and_calls_inside(analysed, op, launched):
    found = analysed(
        op("aten::linear", 0, 100),
        op("aten::addmm", 10, 50),
        *launched(1, 20, 40, 30, call_dur=5),
    )
    found = {row.name: row for row in found.operators}

    assert (found["aten::linear"].total_ns, found["aten::linear"].self_ns) == (100_000, 50_000)
    assert (found["aten::addmm"].total_ns, found["aten::addmm"].self_ns) == (50_000, 45_000)
    assert found["aten::linear"].device_total_ns == 30_000
    assert found["aten::linear"].device_self_ns == 0
    assert found["aten::addmm"].device_self_ns == 30_000


def test_an_operator_inside_one_of_its_own_name_counts_its_time_once(analysed, op, launched):
    calls = op("aten::arange", 0, 100), op("aten::arange", 10, 60)

    (row,) = analysed(*calls, *launched(1, 20, 30, 7)).operators

    assert (row.count, row.total_ns, row.self_ns) == (2, 100_000, 99_000)
    assert (row.device_total_ns, row.device_self_ns) == (7_000, 7_000)


def test_a_cpu_trace_has_operators_and_no_device_figure(analysed, op):
    found = analysed(op("aten::mm", 0, 10), op("aten::mm", 20, 30))

    (row,) = found.operators
    assert (row.count, row.total_ns, row.self_ns) == (2, 40_000, 40_000)
    assert row.device_total_ns is None
    assert found.gpu is None
    assert found.gemm_frac is None
    assert found.launches.delay is None


def test_calls_that_make_a_batch_are_counted_apart(analysed, op):
    fetch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    found = analysed(
        op(fetch, 0, 50, cat="user_annotation"),
        op("aten::stack", 5, 30),
        op("aten::cat", 10, 20),
        op("aten::cat", 60, 20),
    )
    found = {row.name: (row.count, row.loading_count) for row in found.operators}
    assert found == {"aten::stack": (1, 1), "aten::cat": (2, 1)}


def test_calls_that_update_weights_are_counted_apart_from_the_closure_in_the_step(analysed, op):
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    found = analysed(
        op("Optimizer.step#Adam.step", 0, 100, cat="user_annotation"),
        op("aten::copy_", 5, 10),  # forward, in the closure
        op(node, 20, 30),
        op("aten::copy_", 25, 5),
        op("aten::_to_copy", 60, 20),
        op("aten::copy_", 65, 4),
        op("aten::copy_", 120, 9),
        # By hand: no closure, and no node in it.
        op("Optimizer.step#SGD.step", 200, 50, cat="user_annotation"),
        op("aten::copy_", 210, 8),
    )
    found = {row.name: (row.count, row.update_count, row.update_self_ns) for row in found.operators}
    assert found["aten::copy_"] == (5, 2, 12_000)
    assert found["aten::_to_copy"] == (1, 1, 16_000)
    assert found[node] == (1, 0, 0)


@pytest.mark.parametrize(
    ("call", "runtime"),
    [
        ("cudaLaunchKernel", "cuda_runtime"),
        ("cudaLaunchKernelExC", "cuda_runtime"),
        ("cuLaunchKernel", "cuda_driver"),
        ("cuLaunchKernelEx", "cuda_driver"),
        ("hipLaunchKernel", "cuda_runtime"),
        ("hipExtModuleLaunchKernel", "cuda_runtime"),
        ("hipModuleLaunchKernel", "cuda_runtime"),
    ],
)
def test_launches_of_every_api_are_counted_and_lost_ones_missed(analysed, launched, call, runtime):
    events = launched(1, 0, 5, 10, call=call, runtime=runtime)
    lost = launched(2, 20, 25, 10, call=call, runtime=runtime)[0]

    found = analysed(*events, lost)

    assert found.launches.count == 1
    assert found.launches.delay.max_ns == 5_000
    assert [(row.name, row.kind, row.count) for row in found.launches.calls] == [
        (call, "kernel", 2)
    ]
    assert (found.quality.launch_count, found.quality.lost_kernels) == (2, 1)
    assert "1 of 2 kernel launches" in found.quality.doubts[0]


def test_a_graph_launch_starts_many_kernels_with_one_call(analysed, launched):
    call, first = launched(1, 0, 5, 10, call="cudaGraphLaunch")
    more = [first | {"ts": 16 + 11 * i} for i in range(3)]

    found = analysed(call, first, *more)

    assert (found.launches.count, found.launches.graph_count) == (1, 1)
    assert found.launches.kernel_count == 4
    assert found.quality.lost_kernels == found.quality.orphan_kernels == 0


def test_synchronizing_calls_are_listed_with_their_operator(analysed, op, launched):
    read = {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "call_dur": 50}
    found = analysed(
        op("aten::item", 0, 100),
        op("aten::_local_scalar_dense", 5, 90),
        *launched(1, 10, 15, 40, call="cudaMemcpyAsync", **read),
        op("cudaStreamSynchronize", 70, 20, cat="cuda_runtime"),
        op("cudaEventQuery", 91, 1, cat="cuda_runtime"),
    )

    assert [(call.name, call.kind, call.blocked_ns, call.operator) for call in found.syncs] == [
        ("cudaMemcpyAsync", "copy", 50_000, "aten::_local_scalar_dense"),
        ("cudaStreamSynchronize", "stream", 20_000, "aten::_local_scalar_dense"),
    ]
    assert (found.sync_count, found.sync_ns) == (2, 70_000)


def test_calls_of_to_have_the_bytes_of_what_they_copy_on_a_cpu_too(write_trace, op, step):
    copied = {"Input Dims": [[3, 5], []], "Input type": ["c10::BFloat16", "Scalar"]}
    calls = [op("aten::to", 10 * i) for i in range(4)]
    calls += [op("aten::_to_copy", 10 * i, 5, **copied) for i in range(2)]
    timeline = open_timeline(write_trace([step(1, 0, 50), step(2, 50, 50), *calls]))
    analysis = analyze_timeline(timeline)
    assert analysis.to_bytes == 2 * 30
    calls, copied = conversion_figures(analysis)
    assert (calls.value, calls.note) == (2, "calls per step; 1 of them copy")
    assert (copied.value, copied.unit, copied.note) == (30, "bytes", "per step")


def test_waits_for_a_device_are_told_from_those_for_a_stream_and_an_event(analysed, op):
    waits = ["hipDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"]
    calls = [op(name, 20 + 10 * i, 9 - i, cat="cuda_runtime") for i, name in enumerate(waits * 2)]
    frame = op("train.py(7): evaluate", 0, 25, cat="python_function")

    kinds = analysed(frame, *calls, stacks=True).sync_kinds

    assert [(one.name, one.count, one.total_ns) for one in kinds] == [
        ("device", 2, 15_000),
        ("stream", 2, 13_000),
        ("event", 2, 11_000),
    ]
    assert [one.where and one.where.line for one in kinds] == [7, None, None]


def test_a_step_counts_what_was_launched_in_it(write_trace, step, launched):
    path = write_trace(
        [
            step(7, 0, 100),
            step(8, 100, 100),
            *launched(1, 90, 110, 20, name="late_kernel"),  # runs in the next step
            *launched(2, 150, 160, 10, name="own_kernel"),
        ]
    )
    timeline = open_timeline(path)

    first = analyze_timeline(timeline, step_window(timeline, 7))
    steady = analyze_timeline(timeline, steady_window(timeline))

    assert [row.name for row in first.kernels] == ["late_kernel"]
    assert first.gpu.busy_ns == 0
    assert [row.name for row in steady.kernels] == ["own_kernel"]
    assert steady.gpu.busy_ns == 30_000
    assert steady.gpu.span_ns == 100_000


def test_a_step_that_is_not_there_is_named_with_those_that_are(write_trace, op, step):
    timeline = open_timeline(write_trace([step(7, 0, 100), op()]))

    with pytest.raises(TraceError, match=r"no step 3.*ProfilerStep#7"):
        step_window(timeline, 3)
    with pytest.raises(TraceError, match="at least two steps"):
        steady_window(timeline)


def test_stacks_name_the_users_line_and_the_module(analysed, op, launched):
    def call(name, ts, dur, tid=1):
        return op(name, ts, dur, cat="python_function", tid=tid)

    flow = {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 20}
    events = [
        call("train.py(12): training_step", 0, 100),
        call("nn.Module: Linear_0", 10, 50),
        call("torch/nn/modules/linear.py(114): forward", 12, 40),
        op("aten::linear", 20, 30),
        *launched(1, 25, 30, 10),
        flow,
        op("AddmmBackward0", 200, 50, tid=2),
        *launched(2, 210, 220, 30, tid=2),
        flow | {"ph": "f", "tid": 2, "ts": 200},
        op("cudaStreamSynchronize", 70, 10, cat="cuda_runtime"),
    ]

    with_stacks, without = analysed(*events, stacks=True), analysed(*events)

    (module,) = with_stacks.modules
    (line,) = with_stacks.lines
    assert (module.name, module.count, module.total_ns) == ("Linear_0", 2, 40_000)
    assert (line.where.file, line.where.line, line.total_ns) == ("train.py", 12, 40_000)
    assert with_stacks.syncs[0].where.line == 12
    assert without.modules == without.lines == ()
    assert without.syncs[0].where is None


@pytest.mark.parametrize(
    "name",
    [
        "tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz",
        "tracelens-mi300/ddp_resnet18_no_pool/941dea22__train_resnet18.json.gz",
    ],
)
def test_reading_stacks_changes_no_figure(shared_traces, name):
    path = str(shared_traces / "kineto" / name)
    with_stacks, without = (
        analyze_timeline(open_timeline(path, ReadOptions(stacks=stacks)))
        for stacks in (True, False)
    )

    assert with_stacks.operators == without.operators
    assert with_stacks.kernels == without.kernels
    assert with_stacks.launches == without.launches
    assert with_stacks.gpu.idle == without.gpu.idle
    assert with_stacks.modules
