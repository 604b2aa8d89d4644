"""Rules on what the machine lets a run use."""

import pytest
from rule_cases import WORK

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.core_use import CORES_NOTE, CoreUse, Program
from lightning_gpuprof.records.cpu_quota import QUOTA_NOTE, CpuQuota
from lightning_gpuprof.records.page_faults import FAULTS_NOTE, PageFaults
from lightning_gpuprof.records.schema import BATCH_NOTE, Device, Loader, Note


def quota(judge, periods, throttled, *, threads=64, **options):
    value = CpuQuota(2.5, periods, throttled)
    notes = [Note(step=99, name=QUOTA_NOTE, value=value)]
    return judge("cpu-quota", WORK, records=notes, torch_threads=threads, **options)


def test_a_quota_that_is_used_up_in_most_periods_is_told(judge):
    finding = quota(judge, 200, 150)
    assert finding.title.startswith("The container's quota of 2.5 cores made the run wait in 75.0%")
    assert "(torch has 64 threads)" in finding.advice
    assert finding.change.startswith("torch.set_num_threads(2)")
    assert (finding.severity, finding.saving_ns.high) == (Severity.WARNING, 0)


@pytest.mark.parametrize(("periods", "throttled"), [(200, 30), (20, 20), (0, 0)])
def test_a_quota_that_is_seldom_used_up_is_not(judge, periods, throttled):
    assert quota(judge, periods, throttled) is None


@pytest.mark.parametrize(("threads", "workers", "change"), [
    (1, 4, "DataLoader(..., num_workers=1)"),
    (2, 2, "DataLoader(..., num_workers=0)"),
    (1, 1, None),  # it is something else in the container
    (None, 1, "torch.set_num_threads(2)"),
])  # fmt: skip
def test_no_more_threads_are_proposed_than_there_are(judge, threads, workers, change):
    loader = Loader(num_workers=workers)
    found = quota(judge, 200, 150, threads=threads, loader=loader).change
    assert found == change or (change and found.startswith(change))


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
    assert finding.change == "Trainer(..., deterministic=False)"
    assert judge("deterministic-algorithms", WORK, torch_settings=SWITCHED) is None
    cudnn = {"deterministic_algorithms": False, "cudnn_deterministic": True}
    finding = judge("deterministic-algorithms", WORK, torch_settings=cudnn, device=gpu)
    # No argument of the Trainer's turns that off.
    assert finding.change == "torch.backends.cudnn.deterministic = False"


def shared(judge, *, foreign, workers=0, queued, beside=0, **facts):
    second = 1_000_000_000
    use = CoreUse(
        cores=4,
        wall_ns=10 * second,
        busy_ns=round((1 + workers + foreign) * 10 * second),
        stolen_ns=0,
        own_ns=10 * second,
        family_ns=round(workers * 10 * second),
        queued_ns=round(queued * 10 * second),
        others_queued_ns=round(beside * 10 * second),
        programs=(Program("make", round(foreign * 10 * second)), Program("sshd", second // 10)),
    )
    return judge("shared-cores", WORK, records=[Note(99, CORES_NOTE, use)], **facts)


def test_programs_that_have_the_cores_are_told_with_what_is_waited(judge):
    found = shared(judge, foreign=1.5, queued=0.2, beside=0.3, torch_threads=4)
    step_ns = found.evidence["step_ns"]
    assert found.title.startswith("Other programs use 1.5 of the 4 cores: the training thread wait")
    assert found.saving_ns.low == pytest.approx(0.16 * step_ns, rel=0.01)
    assert found.saving_ns.high == pytest.approx(0.46 * step_ns, rel=0.01)
    assert "(at the end ran: 'make')" in found.advice
    assert found.change.startswith("torch.set_num_threads(2)")
    assert found.severity is Severity.CRITICAL


def test_of_what_is_waited_for_loaders_the_others_get_their_share(judge):
    found = shared(
        judge, foreign=1.0, workers=3.0, queued=0.2, torch_threads=1, loader=Loader(num_workers=3)
    )
    assert found.saving_ns.low == pytest.approx(0.04 * found.evidence["step_ns"], rel=0.01)
    assert found.saving_ns.high == pytest.approx(0.06 * found.evidence["step_ns"], rel=0.01)
    assert found.change is None


def test_on_a_gpu_without_marks_nothing_is_sure_to_be_lost(judge):
    found = shared(judge, foreign=1.0, queued=0.2, device=Device(type="cuda"))
    assert found.saving_ns.low == 0 < found.saving_ns.high


@pytest.mark.parametrize(("foreign", "queued"), [(0.05, 0.2), (1.0, 0.0), (0.0, 0.3)])
def test_daemons_and_programs_on_other_cores_are_nothing(judge, foreign, queued):
    assert shared(judge, foreign=foreign, queued=queued) is None


@pytest.mark.parametrize("rule", ["cpu-quota", "gpu-left-unused", "deterministic-algorithms"])
def test_a_machine_that_lets_a_run_use_all_has_nothing_to_report(judge, rule):
    assert judge(rule, WORK, device=Device(type="cuda")) is None
    assert judge(rule, WORK) is None


def faults(judge, count, system_ns, **options):
    value = PageFaults(100, 100 * count, 100 * system_ns, 1_500.0, 4_096)
    notes = options.pop("notes", [])
    notes = [*notes, Note(step=99, name=FAULTS_NOTE, value=value)]
    return judge("page-faults", WORK, records=notes, **options)


def test_memory_that_is_handed_out_anew_is_a_fact_of_the_run(judge):
    found = faults(judge, 1_000, 2_000_000)
    assert found.title == "1,000 pages of memory are handed out anew in each step: 1.50 ms (15.0%)"
    assert (found.saving_ns.low, found.saving_ns.high) == (1_200_000, 2_400_000)
    assert found.severity is Severity.INFO
    # No more than the kernel took in all.
    assert faults(judge, 1_000, 700_000).evidence["fault_cost_ns"] == 700_000
    assert faults(judge, 60, 2_000_000) is None


def test_pages_of_batches_that_workers_hand_over_are_new_anyway(judge):
    batch = [Note(step=0, name=BATCH_NOTE, value=900 * 4_096)]
    kept = Loader(num_workers=2, persistent_workers=True)
    found = faults(judge, 1_000, 2_000_000, notes=batch, loader=kept)
    assert found.evidence["faults_per_step_count"] == 100
    anew = Loader(num_workers=2, persistent_workers=False)
    assert faults(judge, 1_000, 2_000_000, loader=anew).saving_ns.low == 0
    assert faults(judge, 1_000, 2_000_000, device=Device(type="cuda")).saving_ns.low == 0


def test_where_no_faults_were_counted_it_abstains(judge):
    assert isinstance(judge("page-faults", WORK), Abstained)
