import csv

import pytest

from lightning_gpuprof.traces.tables import NameStats, open_tables

GEMM, ADD = "void gemm<float>(float*, float const*)", "add_kernel(float*)"


def test_statistics_of_both_rocprof_generations_are_kernel_tables(tiny_traces):
    old = open_tables(str(tiny_traces / "rocprof_v1.stats.csv"))
    new = open_tables(str(tiny_traces / "rocprofv3_kernel_stats.csv"))

    assert (old.kind, new.kind) == ("kernel", "kernel")
    assert old.stats[0] == NameStats(f"{GEMM} [clone .kd]", 1, 50_000)
    assert new.stats[1] == NameStats(ADD, 1, 25_000, 25_000, 25_000)


def test_older_nsys_headers_give_the_same_statistics(write_text):
    path = write_text(
        "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n"
        '90.0,"1,800,000",2,900000.0,800000,1000000,gemm\n'
    )

    assert open_tables(path).stats == (NameStats("gemm", 2, 1_800_000, 800_000, 1_000_000),)


def test_long_and_wide_ncu_files_give_the_same_counters(tiny_traces):
    long = open_tables(str(tiny_traces / "ncu_long.csv"))
    wide = open_tables(str(tiny_traces / "ncu_wide.csv"))

    def plain(tables):
        return sorted((c.launch, c.kernel, c.name, c.value, c.unit) for c in tables.counters)

    assert plain(long) == plain(wide)
    assert plain(long)[0] == (0, GEMM, "dram__bytes.sum", 1024.5, "byte")
    assert len(long.counters) == 4


def test_hardware_counters_of_rocprofv3_are_read(tiny_traces):
    tables = open_tables(str(tiny_traces / "rocprofv3_counter_collection.csv"))

    assert [(c.launch, c.name, c.value) for c in tables.counters] == [
        (1, "SQ_WAVES", 16384.0),
        (3, "SQ_WAVES", 49152.0),
    ]


def test_a_real_ncu_file_gives_every_metric(shared_traces):
    path = shared_traces / "ncu" / "4aa92b68__copy_blocked.csv"
    tables = open_tables(str(path))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    metrics = [row for row in rows if row["Metric Name"]]

    assert len(tables.counters) == len(metrics)
    assert not tables.warnings
    for counter, row in zip(tables.counters, metrics, strict=True):
        assert (counter.name, counter.unit) == (row["Metric Name"], row["Metric Unit"])
        if isinstance(counter.value, float):
            assert counter.value == float(row["Metric Value"].replace(",", ""))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("rocprof/rocprof-v1/8b9062c6__results.stats.csv", "kernel"),
        ("rocprof/rocprofiler-sdk/hip_api_stats.csv", "api"),
    ],
)
def test_real_statistics_are_what_csv_gives(shared_traces, path, kind):
    tables = open_tables(str(shared_traces / path))
    with (shared_traces / path).open(newline="") as file:
        rows = list(csv.DictReader(file))

    assert tables.kind == kind
    assert [(r.name, r.count, r.total_ns) for r in tables.stats] == [
        (row["Name"], int(row["Calls"]), int(row["TotalDurationNs"])) for row in rows
    ]
