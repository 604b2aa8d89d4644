"""Files of ROCm's profilers in the layouts of their versions: made up, never pasted."""

import json

import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.tables import open_tables

DISPATCH = "GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size"
KERNELS = [(1, "gemm(float*, int)", 1000, 1400), (2, "add", 1500, 1600)]


def test_kernels_of_rocprofv2_are_read_past_empty_lines_and_counters(write_text, totals_by_name):
    header = (
        f"Dispatch_ID,{DISPATCH},Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES"
    )
    rows = [f'{n},4,1,41,42,64,64,"{k}",{s},{e},{n + 30},16384.0' for n, k, s, e in KERNELS]

    timeline = open_timeline(write_text("\n\n".join([header, *rows, ""])))

    assert totals_by_name(timeline, timeline.device, "kernel") == {
        "gemm(float*, int)": (1, 400),
        "add": (1, 100),
    }
    assert timeline.device.correlation.tolist() == [31, 32]
    assert set(timeline.device.device.tolist()) == {4}
    assert set(timeline.device.stream.tolist()) == {1}


def test_calls_of_rocprofv2_have_a_column_of_kernels_that_is_empty(write_text, totals_by_name):
    header = "Domain,Function,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"

    timeline = open_timeline(write_text(f"{header}\n\nHIP_API_DOMAIN,hipMalloc,,1000,1250,2\n\n"))

    assert totals_by_name(timeline, timeline.host, "cuda_runtime") == {"hipMalloc": (1, 250)}
    assert len(timeline.device) == 0


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("memory", ["CopyHostToDevice", "CopyDeviceToHost", "FillBuffer"]),
        ("memory", ["MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"]),
        ("memory", ["MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE"]),
        ("api", ["hipMemcpy", "__hipPushCallConfiguration"]),
        ("api", ["hsa_queue_create", "hsa_amd_memory_pool_allocate"]),
        ("domain", ["HIP_API", "MEMORY_COPY", "KERNEL_DISPATCH"]),
        ("kernel", ["Copy_kernel(float*)", "void gemm<float>(int)"]),
    ],
)
def test_what_statistics_are_of_is_told_from_their_names(write_text, kind, names):
    rows = [f"{name},2,300,150,50.0" for name in names]
    tables = open_tables(
        write_text("\n".join(['"Name","Calls","TotalDurationNs","AverageNs","Percentage"', *rows]))
    )

    assert tables.kind == kind
    assert [(row.name, row.count, row.total_ns) for row in tables.stats] == [
        (name, 2, 300) for name in names
    ]


def test_markers_and_allocations_of_rocprofv3_json_are_host_ranges(write_text, totals_by_name):
    kinds = {"MARKER_CORE_RANGE_API": ["roctxRangePushA"], "MEMORY_ALLOCATION": ["ALLOCATE"]}
    strings = {
        "buffer_records": [{"kind": k, "operations": names} for k, names in kinds.items()],
        "marker_api": [{"key": 7, "value": "epoch 3"}],
    }

    def record(kind, internal, start, end):
        times = {"start_timestamp": start, "end_timestamp": end, "thread_id": 42}
        return {"kind": kind, "operation": 0, "correlation_id": {"internal": internal}, **times}

    records = {
        "marker_api": [record(0, 7, 100, 190), record(0, 8, 110, 120)],
        "memory_allocation": [record(1, 9, 130, 150)],
    }
    tool = {"metadata": {"pid": 41}, "strings": strings, "buffer_records": records}

    timeline = open_timeline(write_text(json.dumps({"rocprofiler-sdk-tool": [tool]})))

    assert totals_by_name(timeline, timeline.host, "user_annotation") == {
        "epoch 3": (1, 90),
        "roctxRangePushA": (1, 10),
    }
    assert totals_by_name(timeline, timeline.host, "other") == {"ALLOCATE": (1, 20)}
