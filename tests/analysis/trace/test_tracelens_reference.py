"""Our figures against TraceLens's own reports for the same files.

Where its report is wrong, docs/adr/0020-tracelens-timelines.md has the proof.
"""

import csv
from collections import defaultdict

import pytest
from analyzed import analyze_timeline

from lightning_gpuprof.analysis.trace.kernels import kernel_table
from lightning_gpuprof.traces import open_timeline

TRACES = (
    "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005",
    "tracelens-h100/facebook_timesformer-base-finetuned-k400__1016002",
    "tracelens-h100/gaunernst_bert-small-uncased__1016001",
    "tracelens-mi300/Qwen_Qwen1.5-0.5B-Chat__1016005",
    "tracelens-mi300/facebook_timesformer-base-finetuned-k400__1016002",
    "tracelens-mi300/gaunernst_bert-small-uncased__1016001",
    "tracelens-misc/gpu_only_trace/gpu_only_trace",
    "tracelens-misc/torch_compile_triton/trace",
)
TOLERANCE = 1e-3


@pytest.fixture(scope="module", params=TRACES)
def reference(request, shared_traces):
    """One trace's analysis and a function that reads a CSV of its report."""
    base = shared_traces / "kineto" / request.param
    timeline = open_timeline(f"{base}.json.gz")

    def table(name):
        path = base.parent / f"{base.name}_perf_report_csvs" / f"{name}.csv"
        if not path.exists():
            pytest.skip(f"TraceLens wrote no {name}.csv for this trace")
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    return request.param, timeline, analyze_timeline(timeline), table


def test_the_time_split_is_theirs(reference):
    name, _, found, table = reference
    # The kernels that were launched before the trace began are no part of either: docs/adr/0020.
    assert "Qwen" not in name or found.quality.orphan_kernels > 400
    theirs = {row["type"]: float(row["time ms"]) * 1e6 for row in table("gpu_timeline")}
    device = found.gpu
    ours = {
        "computation_time": device.first_to_last.compute_ns,
        "exposed_comm_time": device.first_to_last.exposed_comm_ns,
        "exposed_memcpy_time": device.first_to_last.exposed_copy_ns,
        "busy_time": device.first_to_last.busy_ns,
        "idle_time": device.first_to_last.idle_ns,
        "total_time": device.first_to_last.span_ns,
        "total_comm_time": device.first_to_last.comm_ns,
        "total_memcpy_time": device.first_to_last.copy_ns,
    }
    assert ours == pytest.approx(theirs, rel=TOLERANCE, abs=2)


def test_every_kernel_of_their_summary_has_their_count_and_times(reference):
    _, timeline, _, table = reference
    theirs = defaultdict(lambda: [0, 0.0, float("inf"), 0.0])
    for row in table("kernel_summary"):
        kernel = theirs[row["Kernel name"]]
        unit = "Kernel duration (µs)"
        kernel[0] += int(row[f"{unit}_count"])
        kernel[1] += float(row[f"{unit}_sum"]) * 1000
        kernel[2] = min(kernel[2], float(row[f"{unit}_min"]) * 1000)
        kernel[3] = max(kernel[3], float(row[f"{unit}_max"]) * 1000)
    ours = {row.name: row for row in kernel_table(timeline).kernels}

    assert set(ours) == set(theirs)
    for name, (count, total, low, high) in theirs.items():
        row = ours[name]
        assert row.count == count
        assert (row.total_ns, row.min_ns, row.max_ns) == pytest.approx(
            (total, low, high), rel=TOLERANCE
        )


def test_a_step_of_24_layers_has_whole_layers_of_kernels(reference):
    name, timeline, found, _ = reference
    if "Qwen" not in name:
        pytest.skip("another model")
    assert {24, 48} <= {row.count for row in found.kernels[:5]}
    assert sum(row.count for row in found.kernels) < 0.72 * kernel_table(timeline).count


def test_operators_launch_the_device_time_that_theirs_do(reference):
    _, _, found, table = reference
    ours = {row.name: row for row in found.operators}
    for row in table("ops_summary"):
        operator = ours[row["name"]]
        direct = float(row["total_direct_kernel_time_sum"]) * 1000
        inside = float(row["total_subtree_kernel_time_sum"]) * 1000
        assert operator.device_self_ns == pytest.approx(direct, rel=TOLERANCE), row["name"]
        assert operator.device_total_ns == pytest.approx(inside, rel=TOLERANCE), row["name"]
