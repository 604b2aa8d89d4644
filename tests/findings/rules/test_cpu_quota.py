import pytest
from rule_cases import WORK

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import CpuQuota
from lightning_gpuprof.records.schema import Device, Loader


def quota(evaluate, periods, throttled, *, threads=64, **options):
    records = [CpuQuota(2.5, periods, throttled)]
    return evaluate(WORK, records=records, torch_threads=threads, **options)


def test_a_quota_that_is_used_up_in_most_periods_is_reported(evaluate):
    finding = quota(evaluate, 200, 150)
    assert finding.title.startswith("A quota of 2.5 cores was used up in 75%")
    assert "(torch has 64 threads)" in finding.advice
    assert finding.change.startswith("torch.set_num_threads(2)")
    assert (finding.severity, finding.saving_ns.high) == (Severity.WARNING, 0)


@pytest.mark.parametrize(("periods", "throttled"), [(200, 30), (20, 20), (0, 0)])
def test_a_quota_that_is_seldom_used_up_is_not_reported(evaluate, periods, throttled):
    assert quota(evaluate, periods, throttled) is None


@pytest.mark.parametrize(("threads", "workers", "change"), [
    (1, 4, "DataLoader(..., num_workers=1)"),
    (2, 2, "DataLoader(..., num_workers=0)"),
    (1, 1, None),  # it is something else in the container
    (None, 1, "torch.set_num_threads(2)"),
])  # fmt: skip
def test_no_more_threads_are_proposed_than_there_are(evaluate, threads, workers, change):
    loader = Loader(num_workers=workers)
    proposed = quota(evaluate, 200, 150, threads=threads, loader=loader).change
    assert proposed == change or (change and proposed.startswith(change))


def test_a_run_without_a_quota_has_nothing_to_report(evaluate):
    assert evaluate(WORK, device=Device(type="cuda")) is None
    assert evaluate(WORK) is None
