from rule_cases import MS, WORK, span

from lightning_gpuprof.findings.model import Severity, When
from lightning_gpuprof.records.schema import Device, OutsideSpan


def ends(*, ms, name="callbacks/Neighbours"):
    """Epochs' ends at which one callback took so long, one by one."""
    return [
        OutsideSpan(
            where="epoch_end", start_ns=0, dur_ns=one * MS, phase_ns={}, part_ns={name: one * MS}
        )
        for one in ms
    ]


def test_a_callback_that_works_after_each_epoch_is_named(evaluate):
    (finding,) = evaluate(WORK, records=ends(ms=[50, 30, 30, 40]))
    assert finding.title == "Neighbours takes 37.5 ms between epochs (15.0% of the run)"
    assert finding.severity is Severity.WARNING
    assert finding.when is When.BETWEEN
    assert finding.where[0].name == "Neighbours"
    # Four epochs of five without it, a fifth more or less.
    assert span(finding) == (960_000, 1_440_000)
    assert "(trainer.current_epoch + 1) % 5" in finding.change


def test_a_hook_of_the_module_is_changed_where_it_is(evaluate):
    (finding,) = evaluate(WORK, records=ends(ms=[50, 50], name="other/on_train_epoch_end"))
    assert finding.change.startswith("# in on_train_epoch_end, ")


def test_what_decides_what_is_learned_stays(evaluate):
    (finding,) = evaluate(WORK, records=ends(ms=[50, 50], name="other/EMA"))
    assert finding.change is None
    assert "must run in every epoch" in finding.advice


def test_one_long_time_little_time_and_this_packages_own_are_not_told(evaluate):
    for records in (
        ends(ms=[500, 10]),
        ends(ms=[2, 2, 2]),
        ends(ms=[50, 50], name="callbacks/GpuProfCallback"),
        ends(ms=[50, 50], name="validation/on_validation_epoch_end"),
    ):
        assert evaluate(WORK, records=records) == ()


def test_on_a_gpu_it_may_be_the_device_that_is_waited_for(evaluate):
    (finding,) = evaluate(WORK, records=ends(ms=[50, 30, 30, 40]), device=Device(type="cuda"))
    assert span(finding) == (0, 1_440_000)
    assert finding.confidence == 0.5
