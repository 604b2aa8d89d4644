import pytest
from rule_cases import MS, op, span

from lightning_gpuprof.records.schema import Device

PHASES = {"forward": 10 * MS, "backward": 10 * MS, "optimizer_step": 2 * MS}
DOUBLE = {"dtypes": {"float64": 6}, "default_dtype": "float32"}
TRACE = {"operators": [op("aten::mm", 2, 20 * MS), op("aten::add", 2, 2_000)]}


def test_a_model_in_double_may_save_half_of_its_longer_operators(evaluate):
    finding = evaluate(PHASES, trace=TRACE, model=DOUBLE)
    # 10 ms per step in the products.
    assert finding.evidence["operators_ns"] == 10 * MS
    assert span(finding) == (3_000_000, 6_000_000)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": {**DOUBLE, "default_dtype": "float64"}},
        {"model": DOUBLE, "trainer": {"precision": "64-true"}},
        {"model": {"dtypes": {"float32": 6, "float64": 1}}},
    ],
)
def test_is_silent_if_float64_was_asked_for_or_is_rare(evaluate, asked):
    assert evaluate(PHASES, trace=TRACE, **asked) is None


def test_on_a_gpu_the_kernels_time_counts_and_not_the_hosts(evaluate):
    gpu = {"device": Device(type="cuda"), "model": DOUBLE}
    trace = {**TRACE, "gpu": {"compute_ns": 36 * MS, "busy_ns": 36 * MS}}
    finding = evaluate(PHASES, trace=trace, **gpu)
    assert finding.evidence["operators_ns"] == 18 * MS
    assert finding.saving_ns.low == 5_400_000
    assert finding.saving_ns.high <= 22 * MS
    assert evaluate(PHASES, trace=TRACE, **gpu) is None


def test_models_that_differentiate_twice_may_need_float64(evaluate):
    second = op("TanhBackwardBackward0", 2, MS)
    trace = {"operators": [*TRACE["operators"], second]}
    assert evaluate(PHASES, trace=trace, model=DOUBLE) is None
