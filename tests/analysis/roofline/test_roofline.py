import ast
import csv

import pytest
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.analysis.roofline.roofline import roofline, utilization
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.hardware.lookup import Peaks, find_peaks
from lightning_gpuprof.traces import open_timeline

REFERENCES = [
    "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005",
    "tracelens-h100/facebook_timesformer-base-finetuned-k400__1016002",
    "tracelens-h100/gaunernst_bert-small-uncased__1016001",
    "tracelens-mi300/Qwen_Qwen1.5-0.5B-Chat__1016005",
    "tracelens-mi300/facebook_timesformer-base-finetuned-k400__1016002",
    "tracelens-mi300/gaunernst_bert-small-uncased__1016001",
    "tracelens-misc/torch_compile_triton/trace",
]


def analyze(path, **options):
    timeline = open_timeline(str(path))
    return roofline(link(timeline), **options)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    path = tmp_path_factory.mktemp("roofline") / "trace.json"
    known = write_synthetic(path, SyntheticSpec(steps=2))
    return path, known


def plain(dims):
    return [list(shape) if isinstance(shape, (list, tuple)) else shape for shape in dims]


@pytest.mark.parametrize("name", REFERENCES)
def test_flops_bytes_and_time_of_products_are_those_of_tracelens(shared_traces, name):
    path = shared_traces / "kineto" / f"{name}.json.gz"
    found = analyze(path)
    folder = path.with_name(path.name.removesuffix(".json.gz") + "_perf_report_csvs")
    for table in ("GEMM.csv", "SDPA_fwd.csv"):
        if not (folder / table).exists():
            continue
        with (folder / table).open(newline="") as file:
            references = list(csv.DictReader(file))
        assert references
        for reference in references:
            dims = plain(ast.literal_eval(reference["Input Dims_first"]))
            (row,) = [
                r for r in found.rows if r.name == reference["name"] and plain(r.dims) == dims
            ]
            assert row.count == int(reference["name_count"])
            assert row.flop_count == pytest.approx(float(reference["GFLOPS_first"]) * 1e9)
            assert row.num_bytes == pytest.approx(float(reference["Data Moved (MB)_first"]) * 2**20)
            total = float(reference["Kernel Time (µs)_sum"]) * 1000
            assert row.total_ns == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("name", REFERENCES)
def test_real_products_stay_below_their_roof(shared_traces, name):
    found = analyze(shared_traces / "kineto" / f"{name}.json.gz")
    products = [row for row in found.rows if row.category in ("gemm", "conv", "attention")]

    assert found.peaks is not None
    assert products
    assert all(row.anomaly is None and 0 < row.roof_frac < 1 for row in products)
    assert 0 < found.hfu < 1


def test_rates_follow_from_shapes_and_kernel_time(synthetic):
    path, known = synthetic
    found = analyze(path)
    gemm = next(row for row in found.rows if row.name == "aten::mm")
    count, total_ns = next(value for name, value in known.kernels.items() if "gemm" in name)

    assert (gemm.count, gemm.total_ns) == (count, total_ns)
    assert gemm.flop_count == 2 * 512 * 1024 * 1024
    assert gemm.flop_per_s == pytest.approx(gemm.flop_count * count / (total_ns / 1e9))
    assert gemm.peak_flop_per_s == 312e12
    assert gemm.ridge_flop_per_byte == pytest.approx(312e12 / 2.039e12)
    assert gemm.bound is ("compute" if gemm.flop_per_byte > gemm.ridge_flop_per_byte else "memory")
    assert found.flop_count == {"bf16": count * gemm.flop_count}
    assert found.hfu == pytest.approx(count * gemm.flop_count / 312e12 / (known.span_ns / 1e9))


def test_what_exceeds_a_roof_is_an_anomaly_and_no_result(synthetic):
    path, _ = synthetic
    slow = Peaks("slow", {"bf16": 1e12, "fp32": 1e12}, 1e9, "https://example.com")
    found = analyze(path, peaks=slow)

    assert all(row.anomaly for row in found.rows)
    assert all(
        (row.flop_per_s, row.bytes_per_s, row.roof_frac) == (None, None, None) for row in found.rows
    )
    assert "no result is given" in found.notes[0]


def test_without_peaks_rates_are_given_but_no_bound(synthetic, tmp_path):
    text = synthetic[0].read_text().replace("NVIDIA A100-SXM4-80GB", "MockGPU")
    path = tmp_path / "trace.json"
    path.write_text(text)
    found = analyze(path)

    assert found.peaks is None
    assert "MockGPU" in found.reason
    assert found.hfu is None
    assert all(row.flop_per_s is not None and row.bound is None for row in found.rows)


def test_without_shapes_nothing_is_claimed(tmp_path):
    path = tmp_path / "trace.json"
    write_synthetic(path, SyntheticSpec(steps=1, shapes=False))
    found = analyze(path)

    assert found.rows == ()
    assert found.flop_count == {}
    assert found.hfu is None
    assert "record_shapes=True" in found.notes[0]


def test_fp32_products_on_tf32_kernels_are_held_against_the_tf32_peak(shared_traces):
    path = shared_traces / "kineto" / "hta" / "trace_diff" / "control" / "control.json.gz"
    found = analyze(path)
    rows = [row for row in found.rows if row.dtype == "tf32"]

    assert rows
    assert {row.peak_flop_per_s for row in rows} == {156e12}
    assert all(row.category == "gemm" for row in rows)


def test_utilization_is_absent_where_a_peak_is_not_known():
    peaks = find_peaks("Tesla T4").peaks

    assert utilization({"fp16": 65 * 10**9}, 2_000_000, peaks) == 0.5
    assert utilization({"bf16": 10}, 1_000, peaks) is None
    assert utilization({"fp16": 10}, None, peaks) is None
    assert utilization({}, 1_000, peaks) is None
