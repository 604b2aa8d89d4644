"""Each reader against plain SQL, csv or json over the same real file."""

import csv
import gzip
import json
import sqlite3
from collections import defaultdict

import numpy as np
import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import of_category

NSYS = ["h100_2gpu_1s", "healthy_1pct", "power_iteration__baseline"]


def query(path, sql):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("name", NSYS)
def test_nsys_kernels_are_what_sql_gives(shared_traces, totals_by_name, name):
    path = shared_traces / "nsys" / f"{name}.sqlite"
    expected = query(
        path,
        'SELECT value, count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL '
        "JOIN StringIds ON id = demangledName GROUP BY value",
    )
    timeline = open_timeline(str(path))

    found = totals_by_name(timeline, timeline.device, "kernel")
    assert found == {kernel: (count, total) for kernel, count, total in expected}
    first = query(path, "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0][0]
    kernels = of_category(timeline.device, "kernel")
    assert timeline.device.start_ns[kernels].min() + timeline.origin_ns == first


@pytest.mark.parametrize("name", ["h100_2gpu_1s", "power_iteration__baseline"])
def test_nsys_copies_calls_ranges_and_syncs_are_what_sql_gives(shared_traces, name):
    path = shared_traces / "nsys" / f"{name}.sqlite"
    timeline = open_timeline(str(path))
    device, host = timeline.device, timeline.host

    copies = query(
        path,
        'SELECT copyKind, count(*), sum(bytes), sum("end" - start) '
        "FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1",
    )
    kinds = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
    names = np.array(timeline.names)[device.name]
    for kind, count, num_bytes, total in copies:
        mask = np.char.startswith(names.astype(str), f"Memcpy {kinds[kind]}")
        assert mask.sum() == count
        assert device.num_bytes[mask].sum() == num_bytes
        assert device.dur_ns[mask].sum() == total
    calls = of_category(host, "cuda_runtime", "cuda_driver")
    assert (calls.sum(), host.dur_ns[calls].sum()) == query(
        path, 'SELECT count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME'
    )[0]
    ranges = of_category(host, "user_annotation", "cpu_op")
    assert (ranges.sum(), host.dur_ns[ranges].sum()) == query(
        path, 'SELECT count(*), sum("end" - start) FROM NVTX_EVENTS WHERE eventType IN (59, 60)'
    )[0]


def test_rocprof_v1_database_is_what_sql_gives(shared_traces, totals_by_name):
    path = shared_traces / "rocprof" / "rocprof-v1" / "41afdd52__results.db"
    expected = query(
        path, "SELECT KernelName, count(*), sum(EndNs - BeginNs) FROM KERN GROUP BY KernelName"
    )
    timeline = open_timeline(str(path))

    found = totals_by_name(timeline, timeline.device, "kernel")
    assert found == {name.strip('"'): (count, total) for name, count, total in expected}


def test_rocprofv3_json_is_what_json_gives(shared_traces, totals_by_name):
    path = shared_traces / "rocprof" / "rocprof-v1" / "rocprof" / "908_results.json.gz"
    tool = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"][0]
    names = {s["kernel_id"]: s["formatted_kernel_name"] for s in tool["kernel_symbols"]}
    expected = defaultdict(lambda: [0, 0])
    for record in tool["buffer_records"]["kernel_dispatch"]:
        entry = expected[names[record["dispatch_info"]["kernel_id"]]]
        entry[0] += 1
        entry[1] += record["end_timestamp"] - record["start_timestamp"]
    timeline = open_timeline(str(path))

    found = totals_by_name(timeline, timeline.device, "kernel")
    assert found == {name: tuple(entry) for name, entry in expected.items()}
    assert {d.name for d in timeline.devices} == {"AMD Instinct MI350X"}


KERNEL_FILES = ["kernel_trace", "a39956ff__kernel_trace"]
COPY_FILES = ["memory_copy_trace", "ee548f72__memory_copy_trace"]
CALL_FILES = ["hip_runtime_trace", "hip_compile_trace", "hsa_api_trace", "marker_api_trace"]


@pytest.mark.parametrize("name", [*KERNEL_FILES, *COPY_FILES, *CALL_FILES])
def test_rocprofv3_csv_is_what_csv_gives(shared_traces, name):
    path = shared_traces / "rocprof" / "rocprofiler-sdk" / f"{name}.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    timeline = open_timeline(str(path))
    table = timeline.host if name in CALL_FILES else timeline.device

    origin = timeline.origin_ns
    begins, ends = (table.start_ns + origin).tolist(), (table.end_ns + origin).tolist()
    assert sorted(zip(begins, ends, strict=True)) == sorted(
        (int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in rows
    )
    assert sorted(table.correlation.tolist()) == sorted(int(r["Correlation_Id"]) for r in rows)
    if name in KERNEL_FILES:
        assert set(timeline.names) == {row["Kernel_Name"] for row in rows}


@pytest.mark.parametrize(
    ("path", "kernels"),
    [("jax08_gemm/2537e387__tw003", 54), ("jax08_attention/81fb4a76__tw003", 105)],
)
def test_every_kernel_of_a_jax_profile_has_its_launch(shared_traces, path, kernels):
    timeline = open_timeline(str(shared_traces / "jax" / "xplane" / f"{path}.xplane.pb"))
    device, host = timeline.device, timeline.host

    assert len(device) == kernels
    assert (device.dur_ns > 0).all()
    calls = of_category(host, "cuda_runtime")
    launch = dict(zip(host.correlation[calls].tolist(), host.start_ns[calls].tolist(), strict=True))
    starts = zip(device.start_ns.tolist(), device.correlation.tolist(), strict=True)
    assert all(start >= launch[correlation] for start, correlation in starts)
