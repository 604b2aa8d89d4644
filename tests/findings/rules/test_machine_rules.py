"""Rules on what the machine lets a run use; none of them claims time."""

import pytest
from rule_cases import WORK

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.cpu_quota import QUOTA_NOTE, CpuQuota
from lightning_gpuprof.records.schema import Device, Note


def quota(judge, periods, throttled):
    value = CpuQuota(2.5, periods, throttled)
    notes = [Note(step=99, name=QUOTA_NOTE, value=value)]
    return judge("cpu-quota", WORK, records=notes, torch_threads=64)


def test_a_quota_that_is_used_up_in_most_periods_is_told(judge):
    finding = quota(judge, 200, 150)
    assert finding.title.startswith("The container's quota of 2.5 cores made the run wait in 75.0%")
    assert "(torch has 64 threads)" in finding.advice
    assert finding.change.startswith("torch.set_num_threads(2)")
    assert (finding.severity, finding.saving_ns.high) == (Severity.WARNING, 0)


@pytest.mark.parametrize(("periods", "throttled"), [(200, 30), (20, 20), (0, 0)])
def test_a_quota_that_is_seldom_used_up_is_not(judge, periods, throttled):
    assert quota(judge, periods, throttled) is None


@pytest.mark.parametrize(("why", "severity"), [
    ("not_used", Severity.INFO),
    ("not_built", Severity.WARNING),
    ("not_found", Severity.WARNING),
])  # fmt: skip
def test_a_gpu_that_a_run_leaves_unused_is_told(judge, why, severity):
    finding = judge("gpu-left-unused", WORK, gpu_left_unused=why)
    assert finding.severity is severity
    assert finding.saving_ns.high == 0


def test_what_a_later_version_may_note_of_it_is_left_alone(judge):
    assert judge("gpu-left-unused", WORK, gpu_left_unused="lent") is None


SWITCHED = {"deterministic_algorithms": True, "cudnn_deterministic": False}


def test_deterministic_algorithms_on_a_gpu_are_for_information(judge):
    gpu = Device(type="cuda")
    finding = judge("deterministic-algorithms", WORK, torch_settings=SWITCHED, device=gpu)
    assert finding.title.endswith("(torch.use_deterministic_algorithms)")
    assert finding.severity is Severity.INFO
    assert judge("deterministic-algorithms", WORK, torch_settings=SWITCHED) is None


@pytest.mark.parametrize("rule", ["cpu-quota", "gpu-left-unused", "deterministic-algorithms"])
def test_a_machine_that_lets_a_run_use_all_has_nothing_to_report(judge, rule):
    assert judge(rule, WORK, device=Device(type="cuda")) is None
    assert judge(rule, WORK) is None
