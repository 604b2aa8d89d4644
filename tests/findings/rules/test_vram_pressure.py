import pytest
from made_records import memory
from rule_cases import H100, WORK

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Advice

GB = 10**9


def test_memory_that_is_nearly_full_and_was_retried_is_critical(evaluate):
    full = memory(78 * GB, peak_allocated_bytes=75 * GB, total_bytes=80 * GB, alloc_retries=3)
    finding = evaluate(WORK, records=[full], device=H100)
    assert finding.severity is Severity.CRITICAL
    assert "retried 3 times" in finding.title


@pytest.mark.parametrize(
    ("advised", "reported"), [(4, "Lower the batch size and"), (1, "size to 1 ")]
)
def test_memory_that_ran_out_is_not_reported_as_unused(evaluate, judge, advised, reported):
    advice = Advice(step=50, batch_size=2, suggested_batch_size=advised)
    records = [memory(GB, total_bytes=80 * GB, alloc_retries=1), advice]
    finding = evaluate(WORK, records=records, device=H100)
    assert "retried once" in finding.title
    assert reported in finding.advice
    assert judge("unused-vram", WORK, records=records, device=H100) is None


def test_memory_of_other_processes_fills_the_device_too(evaluate):
    def judged(free):
        held = memory(60 * GB, total_bytes=80 * GB, free_bytes=free * GB)
        return evaluate(WORK, records=[held], device=H100)

    assert judged(19) is None
    finding = judged(5)
    assert finding.severity is Severity.WARNING
    assert finding.evidence["others_bytes"] == 15 * GB
    assert "14.0 GiB are in use beside it" in finding.advice
