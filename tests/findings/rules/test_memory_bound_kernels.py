import pytest
from rule_cases import GPU, H100, MS, US, WORK, category, span


def test_memory_bound_kernels_are_judged_by_category_without_a_roofline(evaluate):
    trace = {"gpu": GPU, "categories": [category("gemm", 4 * MS), category("elementwise", 6 * MS)]}
    finding = evaluate(WORK, trace=trace, device=H100)
    assert finding.evidence["memory_bound_frac"] == 0.6
    assert span(finding) == (750_000, 2_250_000)


def test_memory_bound_kernels_are_judged_by_the_roofline_if_there_is_one(evaluate):
    rows = [{"bound": "memory", "total_ns": MS}, {"bound": "compute", "total_ns": 9 * MS}]
    trace = {"gpu": GPU, "categories": [category("gemm", 10 * MS)], "roofline": rows}
    assert evaluate(WORK, trace=trace, device=H100) is None


def test_kernels_with_too_little_work_to_fill_the_device_are_not_bound_by_its_memory(evaluate):
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
        finding = evaluate(WORK, trace=trace, device=H100)
        assert (finding is not None) is reported


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("norm", 750, 3_000), ("conv", 250, 1_500), ("gemm", 250, 1_500)]
)
def test_only_kernels_that_a_compiler_fuses_save_time_at_least_by_their_bytes(
    evaluate, kind, low, high
):
    def row(category, num_bytes):
        moved = {"count": 10, "num_bytes": num_bytes, "peak_bytes_per_s": 1e12}
        return moved | {"bound": "memory", "total_ns": 4 * MS, "category": category}

    # Of 4 ms the bytes of the one take 2, of the other all.
    rows = [row("elementwise", 200_000_000), row(kind, 900_000_000)]
    trace = {"gpu": GPU, "categories": [category("elementwise", 10 * MS)], "roofline": rows}
    finding = evaluate(WORK, trace=trace, device=H100)
    assert span(finding) == (low * US, high * US)
