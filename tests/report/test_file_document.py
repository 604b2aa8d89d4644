from pathlib import Path

import pytest
from msgspec.structs import replace
from read_documents import texts

from lightning_gpuprof.analysis.memory.memory_dump import (
    DeviceDump,
    MemoryDump,
    MemoryPeak,
    MemorySite,
)
from lightning_gpuprof.report.build_file import build_file, build_memory
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.document import Bars, Place, decode, encode

TRACES = Path(__file__).parents[1] / "data" / "traces"
SITE = MemorySite("train.py", 12, "step", 3 * 2**30, 4)
DEVICE = DeviceDump(
    device=0,
    peak=MemoryPeak(4 * 2**30, {"activations": 3 * 2**30, "parameters": 2**30}, (SITE,)),
    reserved_bytes=5 * 2**30,
    allocated_bytes=2**30,
    before_bytes=2**29,
    steps=3,
)
DUMP = MemoryDump(file="oom.pickle", devices=(DEVICE,))


@pytest.fixture
def snapshot(tmp_path, allocator_snapshot):
    allocator_snapshot.allocate(3_000, line=7)
    allocator_snapshot.allocate(1_000, line=9)
    allocator_snapshot.dump(str(tmp_path / "snapshot.pickle"))
    return str(tmp_path / "snapshot.pickle")


def test_a_memory_snapshot_names_the_lines_that_hold_the_memory(snapshot):
    document = build_file(snapshot)
    assert (document.subject.kind, document.subject.facts) == (
        "file",
        {"source": "memory-snapshot"},
    )
    sites = document.rows("memory_sites")
    assert [(site["place"].line, site["bytes"]) for site in sites] == [(7, 3_000), (9, 1_000)]
    assert document.figure("peak_bytes") == 4_000
    assert decode(encode(document)) == document


def test_memory_is_divided_by_kind_the_largest_first():
    document = build_memory("oom.pickle", DUMP)
    (kinds,) = document.parts(Bars)
    assert [(bar.label, bar.frac) for bar in kinds.bars] == [
        ("Activations", 0.75),
        ("Parameters", 0.25),
    ]
    assert document.figure("reserved_bytes") == 5 * 2**30
    assert document.section("memory_growth") is None


def test_a_line_that_grows_is_named_with_its_pace():
    growing = replace(SITE, bytes_per_step=2**20)
    document = build_memory("a", replace(DUMP, devices=(replace(DEVICE, growing=(growing,)),)))
    (row,) = document.rows("memory_growth")
    assert (row["place"], row["per_step_bytes"]) == (Place(file="train.py", line=12), 2**20)


def test_each_device_has_sections_of_its_own():
    other = replace(DEVICE, device=1)
    document = build_memory("a", replace(DUMP, devices=(DEVICE, other)))
    ids = [section.id for section in document.sections]
    assert ids == ["memory", "memory_sites", "memory_1", "memory_sites_1"]


def test_memory_without_a_stack_says_so():
    site = MemorySite(None, None, None, 100, 1)
    device = replace(DEVICE, peak=MemoryPeak(100, {"other": 100}, (site,)))
    assert "no stack was recorded" in render(build_memory("a", replace(DUMP, devices=(device,))))


def test_the_text_of_a_snapshot_has_what_is_in_use_and_who_holds_it():
    text = render(build_memory("oom.pickle", DUMP))
    assert text.startswith("oom.pickle: a snapshot of the CUDA allocator's memory\n")
    assert "  in use            4.00 GiB (at the peak of the history)\n" in text
    assert "  Activations  3.00 GiB  75%" in text
    assert "  train.py:12  step      3.00 GiB       4\n" in text


def test_statistics_are_ranked_by_time_with_their_share():
    document = build_file(str(TRACES / "nsys_stats.csv"))
    rows = document.rows("kernel_statistics")
    assert [(row["total_ns"], row["frac"]) for row in rows] == [
        (50_000, pytest.approx(2 / 3)),
        (25_000, pytest.approx(1 / 3)),
    ]
    assert document.subject.line == "statistics (stats-csv)"


def test_so_many_rows_are_shown_at_first_as_were_asked_for():
    document = build_file(str(TRACES / "nsys_stats.csv"), first_rows=1)
    assert "add_kernel" not in render(document)
    assert "add_kernel" in render(document, verbose=True)


def test_counters_give_a_row_per_kernel_and_all_values():
    document = build_file(str(TRACES / "ncu_long.csv"))
    times = [row["total_ns"] for row in document.rows("kernels")]
    assert times == [50_000, 25_000]
    assert document.section("counters").detail == "verbose"
    assert {row["name"] for row in document.rows("counters")} >= {"gpu__time_duration.sum"}


def test_counters_without_a_figure_of_the_kernel_are_shown_as_they_are():
    document = build_file(str(TRACES / "rocprofv3_counter_collection.csv"))
    assert document.section("kernels") is None
    values = [(row["name"], row["value"]) for row in document.rows("counters")]
    assert values == [("SQ_WAVES", 16_384), ("SQ_WAVES", 49_152)]


def test_a_file_that_no_reader_knows_has_no_document(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    assert build_file(str(path)) is None


def test_statistics_have_their_total_mean_and_share_of_matrix_products():
    document = build_file(str(TRACES / "rocprofv3_kernel_stats.csv"))
    assert document.figure("total_ns") == 75_000
    assert document.figure("mean_ns") == 37_500
    assert document.figure("gemm_frac") == pytest.approx(2 / 3)


def test_statistics_of_calls_have_the_share_of_host_syncs(tmp_path):
    path = tmp_path / "hip_api_stats.csv"
    path.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
        '"hipLaunchKernel",30,30000,1000.0,30.0,900,1200,1.0\n'
        '"hipDeviceSynchronize",2,70000,35000.0,70.0,30000,40000,1.0\n'
    )
    document = build_file(str(path))
    assert (document.figure("total_ns"), document.figure("sync_frac")) == (100_000, 0.7)


def test_a_file_of_counters_has_advice_by_the_limiting_unit(tmp_path):
    head = "ID,Kernel Name,Section Name,Metric Name,Metric Unit,Metric Value"
    shares = {"copy": (20, 91), "gemm": (90, 30), "tiny": (3, 2)}
    lines = [
        f'"{number}","{name}","S","{metric}","%","{value}"'
        for number, (name, values) in enumerate(shares.items())
        for metric, value in zip(
            ("Compute (SM) Throughput", "DRAM Throughput"), values, strict=True
        )
    ]
    path = tmp_path / "ncu.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    memory, compute, latency = texts(build_file(str(path)), "advice")
    assert "first copy: move fewer bytes" in memory
    assert "first gemm: compute less" in compute
    assert "first tiny: give it more to do" in latency
