"""Rules on which kernels a device's time goes to."""

import pytest
from rule_cases import H100, MS, WORK, span

from lightning_gpuprof.findings.model import Abstained, Severity

ADDS = "void (anonymous namespace)::indexing_backward_kernel<float, 4>(long const*, float*)"
HELD = {"device_dur": 10 * MS, "device/forward": 10 * MS, "run_ahead/forward": 6 * MS}
"""Steps that the device holds up."""


def kernel(name, total_ns, category="other"):
    return {"name": name, "category": category, "count": 2, "total_ns": total_ns}


def device_op(name, total_ns):
    return {"name": name, "count": 2, "total_ns": 0, "self_ns": 0, "device_total_ns": total_ns}


@pytest.fixture
def on_device(judge):
    def judged(finding_id, trace, records=(), columns=HELD):
        options = {"trace": {"gpu": {}, **trace}, "records": records, "device": H100}
        return judge(finding_id, WORK, columns=columns, **options)

    return judged


INDEXED = {
    "kernels": [kernel(ADDS, 16 * MS), kernel("gemm", 3 * MS, "gemm")],
    "operators": [
        device_op("aten::index", MS),
        device_op("aten::_index_put_impl_", 16 * MS),
        device_op("aten::index_put_", 17 * MS),
        device_op("IndexBackward0", 17 * MS),
        device_op("autograd::engine::evaluate_function: IndexBackward0", 17 * MS),
    ],
}
"""Two steps, in each of which 8 ms of kernels add up what 0.5 ms have looked up."""


def test_a_kernel_that_is_most_of_what_the_device_does_is_named_with_what_launched_it(on_device):
    found = on_device("dominant-kernel", INDEXED)
    assert found.title == (
        "indexing_backward_kernel takes 84.2% of the kernels' time, 8.00 ms of each step, "
        "launched by aten::_index_put_impl_ in IndexBackward0"
    )
    assert (found.severity, span(found)) == (Severity.INFO, (0, 0))


@pytest.mark.parametrize(
    ("kernels", "columns"),
    [
        ([kernel("ampere_sgemm_128x64_nn", 18 * MS, "gemm")], HELD),
        ([kernel("pooled", 8 * MS), kernel("gathered", 9 * MS)], HELD),
        ([kernel("pooled", 9 * MS)], HELD),
        ([kernel("pooled", 18 * MS)], HELD | {"run_ahead/forward": 1_000}),
    ],
    ids=["products", "several", "half a step", "host-bound"],
)
def test_products_several_kernels_and_steps_that_wait_for_the_host_are_well(
    on_device, kernels, columns
):
    assert on_device("dominant-kernel", {"kernels": kernels}, columns=columns) is None


def test_kernels_of_one_name_are_counted_together(on_device):
    kernels = [kernel("void pooled<float>(int)", 6 * MS), kernel("void pooled<half>(int)", 6 * MS)]
    assert on_device("dominant-kernel", {"kernels": kernels}).where[0].kernel == "pooled"


@pytest.mark.parametrize("finding_id", ["dominant-kernel"])
def test_without_a_trace_a_rule_says_what_it_lacks(judge, finding_id):
    assert isinstance(judge(finding_id, WORK), Abstained)
