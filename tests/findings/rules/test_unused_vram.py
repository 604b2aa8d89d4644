from made_records import memory

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Advice

GIB = 2**30
LOW = memory(20 * GIB)


def test_a_low_peak_is_a_fact_that_claims_no_time(evaluate):
    advice = Advice(step=50, batch_size=32, suggested_batch_size=128)
    finding = evaluate({"forward": 1}, records=[LOW, advice])
    assert finding.severity is Severity.INFO
    assert finding.title == "The memory peak is 20.0 GiB, 25% of the device"
    assert finding.change == "DataLoader(..., batch_size=128)"
    assert finding.evidence["suggested_batch_size_count"] == 128
    assert finding.saving_ns.high == 0


def test_without_a_suggestion_no_batch_size_is_named(evaluate):
    finding = evaluate({"forward": 1}, records=[LOW])
    assert finding.advice == "Raise the batch size, and the learning rate with it."
    assert finding.change is None
    assert "suggested_batch_size_count" not in finding.evidence


def test_a_peak_within_the_target_band_is_silent_and_a_cpu_says_what_it_lacks(evaluate):
    assert evaluate({"forward": 1}, records=[memory(48 * GIB)]) is None
    assert evaluate({"forward": 1}).reason == "device memory was not measured"
