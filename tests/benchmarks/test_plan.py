"""Plans against torch's own CPU allocator: small models, as benchmarks/plan.py measures them."""

import importlib

import pytest


@pytest.fixture
def benchmark_of_plans(fault_suite):
    return importlib.import_module("plan")


@pytest.mark.parametrize("name", ["mlp", "resnet", "transformer", "varying"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_predicted_peak_is_within_ten_percent_of_what_real_steps_allocate(
    benchmark_of_plans, name
):
    row = benchmark_of_plans.compare(name, benchmark_of_plans.SIZES[name][0])
    assert row["measured_bytes"] > 4 * 2**20
    assert row["predicted_bytes"] == pytest.approx(row["measured_bytes"], rel=0.10)
