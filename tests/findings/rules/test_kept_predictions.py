import pytest
from rule_cases import MS, US, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.facts import KeptPredictions, PageFaults, ProcessMemory

MIB = 2**20
PREDICT = {"forward": 2 * MS}
KEPT = KeptPredictions(MIB, MIB, returned=True)
RISING = [ProcessMemory(50 * i, 10**9 + i * 50 * MIB) for i in range(10)]
FAULTS = PageFaults(faults=2 * 100 * 256, system_ns=100 * MS)
"""Twice as many pages as 100 batches of a MiB have."""


@pytest.fixture
def predict(evaluate):
    return lambda *records: evaluate(PREDICT, records=records, stage="predict")


def test_outputs_that_predict_returns_are_reported_even_in_a_short_run(predict):
    finding = predict(KEPT)
    assert finding.severity is Severity.WARNING
    assert finding.title == "predict keeps 1.00 MiB of each batch until its end"
    assert finding.evidence["kept_bytes"] == 100 * MIB
    assert "return_predictions=False" in finding.change
    assert "BasePredictionWriter" in finding.advice
    assert "detach" not in finding.advice
    assert span(finding) == (0, 0)


def test_the_kernels_time_for_new_pages_is_saved_as_far_as_the_outputs_take_them(predict):
    assert span(predict(KEPT, FAULTS)) == (450 * US, 800 * US)


def test_a_writer_that_receives_all_is_named(predict):
    finding = predict(KeptPredictions(MIB, MIB, returned=False, writer="DiskWriter"))
    assert finding.advice.startswith("DiskWriter receives all outputs")
    assert finding.change is None


def test_a_small_part_of_a_large_tensor_is_to_be_copied(predict):
    assert ".clone()" in predict(KeptPredictions(MIB, MIB // 100, returned=True)).advice
    assert ".clone()" not in predict(KEPT).advice


def test_the_same_growth_is_reported_once(analyze):
    run = analyze(PREDICT, records=[KEPT, FAULTS, *RISING], stage="predict")
    asked = [rules()[name] for name in ("kept-predictions", "memory-growth")]
    assert [finding.id for finding in evaluate_rules(run, asked).findings] == ["kept-predictions"]


def test_memory_matters_however_little_time_is_saved(analyze):
    noisy = {"forward": [(2 + step % 7) * MS for step in range(100)]}
    little = PageFaults(faults=100 * 256, system_ns=MS)
    run = analyze(noisy, records=[KEPT, little], stage="predict")
    [finding] = evaluate_rules(run, [rules()["kept-predictions"]]).findings
    assert (finding.severity, finding.saving_ns.low) == (Severity.WARNING, 0)


def test_small_outputs_are_not_reported(predict):
    assert predict(KeptPredictions(MIB // 2, MIB // 2, returned=True)) is None


def test_where_nothing_is_kept_the_rule_abstains(predict):
    assert isinstance(predict(), Abstained)
