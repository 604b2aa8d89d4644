import pytest
from rule_cases import WORK

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Device


@pytest.mark.parametrize(("why", "severity"), [
    ("not_used", Severity.INFO),
    ("not_built", Severity.WARNING),
    ("not_found", Severity.WARNING),
])  # fmt: skip
def test_a_gpu_that_a_run_leaves_unused_is_reported(evaluate, why, severity):
    finding = evaluate(WORK, gpu_left_unused=why)
    assert finding.severity is severity
    assert finding.saving_ns.high == 0


def test_a_run_on_a_gpu_or_without_one_in_the_machine_has_nothing_to_report(evaluate):
    assert evaluate(WORK, device=Device(type="cuda")) is None
    assert evaluate(WORK) is None
