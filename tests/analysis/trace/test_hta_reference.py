"""Our figures against HolisticTraceAnalysis 0.5.0's for the same files.

Its figures were printed by `TraceAnalysis(..., include_last_profiler_step=True)`, in whole
microseconds; docs/adr/0021-hta-definitions.md says where it defines a figure otherwise.
"""

from dataclasses import replace

import pytest
from analyzed import analyze_timeline

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import CATEGORY_ID, select

# File: idle, compute without fills, span; of get_temporal_breakdown.
TEMPORAL = {
    "hta/trace_diff/control/control.json.gz": (76_007, 281_336, 464_594),
    "hta/timeline_analysis/sampled_rank-0.json.gz": (675_191, 210_320, 1_222_847),
    "kineto-v100/383a0664__worker0.1623143566756.pt.trace.json.gz": (273_921, 591_209, 876_066),
    "kineto-v100/234cf25d__worker0.1623212756351.pt.trace.json.gz": (187_137, 594_868, 801_550),
    "kineto-tbplugin-expected/71530b1d__gpu_metrics_input.json": (11_896, 48, 11_946),
    "hta/call_stack/backward_thread.json": (0, 45, 45),
}


# File: kernels, copies, fills with a stream; where it finds as many as the file has.
COUNTS = {
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": (14, 2, 0),
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": (79, 16, 3),
    "hta/nccl_parser_config/nccl_data.json.gz": (2700, 960, 114),
    "hta/timeline_analysis/sampled_rank-0.json.gz": (1154, 40, 10),
    "hta/trace_diff/control/control.json.gz": (8568, 228, 654),
    "kineto-v100/234cf25d__worker0.1623212756351.pt.trace.json.gz": (8868, 12, 378),
    "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (1465, 1, 241),
    "tracelens-h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz": (446, 2, 86),
    "tracelens-mi300/ddp_resnet18_no_pool/941dea22__train_resnet18.json.gz": (2360, 5, 10),
    "tracelens-misc/gpu_only_trace/gpu_only_trace.json.gz": (562, 0, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_device_events_are_as_many_as_theirs(shared_traces, name):
    category = open_timeline(str(shared_traces / "kineto" / name)).device.category

    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    assert tuple(int((category == CATEGORY_ID[kind]).sum()) for kind in kinds) == COUNTS[name]


@pytest.mark.parametrize("name", TEMPORAL)
def test_idle_compute_and_span_are_theirs(shared_traces, name):
    idle, compute, span = TEMPORAL[name]
    timeline = open_timeline(str(shared_traces / "kineto" / name))

    split = analyze_timeline(timeline).gpu.first_to_last

    assert (split.idle_ns, split.span_ns) == (idle * 1000, span * 1000)
    # Fills are memory to it and compute to us: without them ours is the same.
    kernels = timeline.device.category != CATEGORY_ID["gpu_memset"]
    without = replace(timeline, device=select(timeline.device, kernels))
    assert analyze_timeline(without).gpu.first_to_last.compute_ns == compute * 1000


def test_kernels_overlap_by_kind_and_the_queue_is_as_deep_as_theirs(shared_traces):
    path = shared_traces / "kineto/hta/trace_diff/control/control.json.gz"

    found = analyze_timeline(open_timeline(str(path)))

    # Of get_gpu_kernel_breakdown: communication alone, with compute, with memory, with both.
    comm_us = 86_554 + 66_699 + 1_367 + 8_915
    assert found.gpu.first_to_last.comm_ns == comm_us * 1000
    depth = found.launches.queue_depth
    # Theirs is per stream: 287 at most on the busiest; ours counts all streams.
    assert 287 <= depth.max <= 287 + 10 + 2 + 22
    assert all(value >= 0 for _, value in depth.series)


def test_launches_before_the_trace_began_are_told_and_without_them_idle_is_theirs(shared_traces):
    path = shared_traces / "kineto/hta/negative_queue_length_values_check/rank0.json.gz"
    timeline = open_timeline(str(path))

    found = analyze_timeline(timeline)
    known = select(timeline.device, link(timeline).launches.call >= 0)
    split = analyze_timeline(replace(timeline, device=known)).gpu.first_to_last

    assert found.quality.orphan_kernels == 872
    assert min(value for _, value in found.launches.queue_depth.series) >= 0
    assert found.launches.delay.min_ns >= 0
    assert (split.idle_ns, split.span_ns) == (848_216_000, 1_229_072_000)
