"""Rules about kernels that move memory, and the layouts that they move it in."""

import pytest
from rule_cases import GPU, H100, MS, US, WORK, category, op, span


def test_memory_bound_kernels_are_judged_by_category_without_a_roofline(judge):
    trace = {"gpu": GPU, "categories": [category("gemm", 4 * MS), category("elementwise", 6 * MS)]}
    finding = judge("memory-bound-kernels", WORK, trace=trace, device=H100)
    assert finding.evidence["memory_bound_frac"] == 0.6
    assert span(finding) == (750_000, 2_250_000)


def test_memory_bound_kernels_are_judged_by_the_roofline_if_there_is_one(judge):
    rows = [{"bound": "memory", "total_ns": MS}, {"bound": "compute", "total_ns": 9 * MS}]
    trace = {"gpu": GPU, "categories": [category("gemm", 10 * MS)], "roofline": rows}
    assert judge("memory-bound-kernels", WORK, trace=trace, device=H100) is None


def test_kernels_with_too_little_work_to_fill_the_device_are_not_bound_by_its_memory(judge):
    row = {"bound": "memory", "total_ns": 9 * MS, "count": 1_000, "peak_bytes_per_s": 3e12}
    row["category"] = "elementwise"
    # One that takes long all the same reads its memory badly.
    slow = {"bytes_per_s": 1e8, "count": 10}
    for own, reported in (
        ({"bytes_per_s": 1e12}, True),
        ({"bytes_per_s": 1e8}, False),
        (slow, True),
    ):
        trace = {"gpu": GPU, "categories": [category("elementwise", 10 * MS)]}
        trace["roofline"] = [row | own]
        finding = judge("memory-bound-kernels", WORK, trace=trace, device=H100)
        assert (finding is not None) is reported


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("norm", 750, 3_000), ("conv", 250, 1_500), ("gemm", 250, 1_500)]
)
def test_only_kernels_that_a_compiler_fuses_save_time_at_least_by_their_bytes(
    judge, kind, low, high
):
    def row(category, num_bytes):
        moved = {"count": 10, "num_bytes": num_bytes, "peak_bytes_per_s": 1e12}
        return moved | {"bound": "memory", "total_ns": 4 * MS, "category": category}

    # Of 4 ms the bytes of the one take 2, of the other all.
    rows = [row("elementwise", 200_000_000), row(kind, 900_000_000)]
    trace = {"gpu": GPU, "categories": [category("elementwise", 10 * MS)], "roofline": rows}
    finding = judge("memory-bound-kernels", WORK, trace=trace, device=H100)
    assert span(finding) == (low * US, high * US)


TRANSPOSES = {
    "gpu": GPU,
    "operators": [op("aten::convolution", 16, MS)],
    "kernels": [{"name": "cudnn::nchwToNhwcKernel<bf16>", "total_ns": 2 * MS, "mean_ns": 10 * US}],
}


def test_transposes_around_convolutions_are_saved_by_channels_last(judge):
    finding = judge("non-contiguous-layout", WORK, trace=TRANSPOSES, device=H100)
    assert span(finding) == (800 * US, 1_200 * US)
    assert "channels_last" in finding.change
    columns = {"device_dur": 10 * MS, "device/forward": 10 * MS, "run_ahead/forward": US}
    options = {"trace": TRANSPOSES, "device": H100, "columns": columns}
    assert judge("non-contiguous-layout", WORK, **options) is None  # it would wait for the host


CONTIGUOUS = op("aten::contiguous", 16, 2 * MS, 0)


def test_layout_changes_are_counted_in_the_backward_pass_too(judge):
    finding = judge("non-contiguous-layout", WORK, trace={"operators": [CONTIGUOUS]})
    # One of eight may have to stay; what goes with the others differs by up to a fifth.
    assert span(finding) == (700 * 1_000, 2 * MS)


def test_copies_that_the_gradient_of_a_convolution_makes_are_torchs_own(judge):
    within = {**CONTIGUOUS, "backward_count": 16, "backward_ns": 2 * MS}
    assert judge("non-contiguous-layout", WORK, trace={"operators": [within]}) is None
    half = {**CONTIGUOUS, "backward_count": 8, "backward_ns": MS}
    finding = judge("non-contiguous-layout", WORK, trace={"operators": [half]})
    assert finding.evidence["relayout_ns"] == MS // 2
    assert finding.evidence["relayouts_per_step_count"] == 4
