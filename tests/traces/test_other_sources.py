import gzip
import shutil

import pytest

from lightning_gpuprof.errors import TraceError, UnknownTraceError
from lightning_gpuprof.traces import ReadOptions, find_reader, open_timeline
from lightning_gpuprof.traces.tables import open_tables
from lightning_gpuprof.traces.timeline import DeviceMetric, of_category

GEMM, ADD = "void gemm<float>(float*, float const*)", "add_kernel(float*)"
CLONE = " [clone .kd]"

WHOLE = {
    "nsys.sqlite": "nsys",
    "rocpd.db": "rocpd",
    "run.rpd": "rpd",
    "rocprof_v1.db": "rocprof",
    "rocprofv3_results.json.gz": "rocprofv3-json",
    "jax.xplane.pb": "jax-xplane",
}
KERNELS_ONLY = {"rocprof_v1.csv": "rocprof", "rocprofv3_kernel_trace.csv": "rocprofv3-csv"}


@pytest.mark.parametrize(("name", "source"), [*WHOLE.items(), *KERNELS_ONLY.items()])
def test_every_format_gives_the_same_kernels(tiny_traces, totals_by_name, name, source):
    timeline = open_timeline(str(tiny_traces / name))

    found = totals_by_name(timeline, timeline.device, "kernel")
    plain = {kernel.removesuffix(CLONE): value for kernel, value in found.items()}
    assert timeline.source == source
    assert plain == {GEMM: (1, 50_000), ADD: (1, 25_000)}
    assert set(timeline.device.stream.tolist()) == {7}


@pytest.mark.parametrize("name", WHOLE)
def test_kernels_copies_and_calls_keep_their_distances_and_correlations(tiny_traces, name):
    timeline = open_timeline(str(tiny_traces / name))
    device, host = timeline.device, timeline.host
    calls = host.correlation > 0
    copies = of_category(device, "gpu_memcpy")

    gemm = device.start_ns[0]
    assert (device.start_ns - gemm).tolist() == [0, 70_000, 90_000]
    assert device.correlation.tolist() == [1, 2, 3]
    assert copies.tolist() == [False, True, False]
    assert device.num_bytes.tolist() == [-1, -1 if name == "rocprof_v1.db" else 4096, -1]
    assert timeline.names[device.name[1]].startswith("Memcpy HtoD")
    launches = [n for n in host.start_ns[calls] - gemm if n in (-10_000, 60_000, 81_000)]
    assert launches == [-10_000, 60_000, 81_000]


@pytest.mark.parametrize("name", [*WHOLE, *KERNELS_ONLY])
def test_a_devices_vendor_has_one_spelling(tiny_traces, name):
    (device,) = open_timeline(str(tiny_traces / name)).devices

    wrote = {"nsys": "nvidia", "roc": "amd", "rpd": "amd", "run.rpd": "amd"}  # JAX's do not say
    assert device.vendor == next((v for k, v in wrote.items() if name.startswith(k)), None)


@pytest.mark.parametrize("name", ["nsys.sqlite", "rocpd.db", "run.rpd"])
def test_ranges_become_user_annotations(tiny_traces, totals_by_name, name):
    timeline = open_timeline(str(tiny_traces / name))

    found = totals_by_name(timeline, timeline.host, "user_annotation")
    assert found == {"step": (1, 140_000)}


def test_copies_calls_and_allocations_of_rocprofv3_are_files_of_their_own(
    tiny_traces, totals_by_name
):
    copies, calls, memory = (
        open_timeline(str(tiny_traces / f"rocprofv3_{kind}_trace.csv"))
        for kind in ("memory_copy", "hip_api", "memory_allocation")
    )

    allocated = {"MEMORY_ALLOCATION_ALLOCATE": (1, 50)}
    assert totals_by_name(copies, copies.device, "gpu_memcpy") == {"Memcpy HtoD": (1, 10_000)}
    assert copies.device.device.tolist() == [1]
    assert totals_by_name(calls, calls.host, "cuda_runtime") == {"hipLaunchKernel": (3, 8_000)}
    assert totals_by_name(memory, memory.host, "other") == allocated


def test_metrics_that_nsys_sampled_are_means_from_the_first_kernel_to_the_last(write_database):
    names = [(7, "SMs Active [Throughput %]"), (8, "DRAM Read [Throughput %]"), (9, "Clock [MHz]")]
    values = [(5, 7, 99), (10, 7, 20), (15, 7, 60), (10, 8, 30), (12, 9, 1500), (25, 7, 99)]
    path = write_database(
        CUPTI_ACTIVITY_KIND_KERNEL=("start, end", [(10, 11), (20, 21)]),
        TARGET_INFO_GPU_METRICS=("typeId, metricId, metricName", [(3, *one) for one in names]),
        GPU_METRICS=("typeId, timestamp, metricId, value", [(3, *one) for one in values]),
    )

    assert open_timeline(path).metrics == [
        DeviceMetric("DRAM Read", 0, 1, 0.3, 0.3),
        DeviceMetric("SMs Active", 0, 2, 0.4, 0.6),
    ]


def test_counters_with_times_are_no_trace_for_each_launch_has_a_row_per_counter(tiny_traces):
    path = str(tiny_traces / "rocprofv3_counters_timed.csv")

    with pytest.raises(UnknownTraceError):
        open_timeline(path)
    assert len(open_tables(path).counters) == 4


def test_a_jax_profile_names_steps_and_copies_and_python_calls_only_with_stacks(tiny_traces):
    path = str(tiny_traces / "jax.xplane.pb")
    plain, full = open_timeline(path), open_timeline(path, ReadOptions(stacks=True))

    assert {"step#4", "Memcpy HtoD (Pinned -> Device)"} <= set(plain.names)
    assert "jit_step" not in [plain.names[i] for i in plain.device.name], "derived, no work"
    assert "$train.py:7 step" in set(full.names) - set(plain.names)


def test_the_kind_is_found_from_the_content_not_from_the_name(tiny_traces, tmp_path):
    for name in (*WHOLE, *KERNELS_ONLY):
        renamed = tmp_path / "file.bin"
        shutil.copy(tiny_traces / name, renamed)

        assert find_reader(str(renamed)) is find_reader(str(tiny_traces / name))


def test_csv_and_json_may_be_gzipped_or_not(tiny_traces, write_text):
    kernels = (tiny_traces / "rocprofv3_kernel_trace.csv").read_bytes()
    results = gzip.decompress((tiny_traces / "rocprofv3_results.json.gz").read_bytes())

    assert len(open_timeline(write_text(kernels, name="kernels.csv.gz")).device) == 2
    assert len(open_timeline(write_text(results, name="results.json")).device) == 3


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_ends_anywhere_gives_what_it_holds_or_says_why_not(tiny_traces, tmp_path, name):
    whole = (tiny_traces / name).read_bytes()
    cut = tmp_path / name
    for share in (0.3, 0.5, 0.7, 0.9, 0.99):
        cut.write_bytes(whole[: int(len(whole) * share)])
        try:
            timeline = open_timeline(str(cut))
        except TraceError:
            continue
        assert len(timeline.device) <= 3
        if len(timeline.device) < 3 or len(timeline.host) < 3:
            assert timeline.warnings


def test_cuda_graphs_recorded_as_a_whole_are_one_event_each_and_said(write_database):
    path = write_database(
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=(
            'start, "end", graphId, deviceId, streamId, correlationId',
            [(10, 30, 5, 0, 7, 1)],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=('start, "end", globalTid, nameId', []),
    )

    timeline = open_timeline(path)

    assert [timeline.names[i] for i in timeline.device.name] == ["CUDA graph 5"]
    assert "--cuda-graph-trace=node" in timeline.warnings[0]


def test_launches_of_two_processes_with_the_same_ids_stay_apart(write_database):
    first, second = 41 << 24, 42 << 24
    path = write_database(
        CUPTI_ACTIVITY_KIND_KERNEL=(
            'start, "end", deviceId, streamId, correlationId, globalPid, shortName',
            [(10, 20, 0, 7, 1, first, 0), (15, 30, 1, 7, 1, second, 0)],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            'start, "end", globalTid, correlationId, nameId',
            [(0, 2, first | 5, 1, 0), (7, 9, second | 6, 1, 0)],
        ),
    )

    timeline = open_timeline(path)

    calls = dict(
        zip(timeline.host.correlation.tolist(), timeline.host.start_ns.tolist(), strict=True)
    )
    assert [calls[c] for c in timeline.device.correlation.tolist()] == [0, 7]
