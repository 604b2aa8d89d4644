from rule_cases import MS, WORK, span

from lightning_gpuprof.findings.model import Severity, When
from lightning_gpuprof.records.schema import Device, OutsideSpan


def ends(*each_ms, name="callbacks/Neighbours"):
    """Epochs' ends at which one callback took so long, one by one."""
    return [
        OutsideSpan("epoch_end", 0, ms * MS, phase_ns={}, part_ns={name: ms * MS}) for ms in each_ms
    ]


def test_a_callback_that_works_after_each_epoch_is_named(evaluate):
    (finding,) = evaluate(WORK, records=ends(50, 30, 30, 40))
    assert finding.title == "Neighbours takes 37.5 ms between epochs (15% of the run)"
    assert finding.severity is Severity.WARNING
    assert finding.when is When.BETWEEN
    assert finding.places[0].name == "Neighbours"
    # Four epochs of five without it, a fifth more or less.
    assert span(finding) == (960_000, 1_440_000)
    assert "(trainer.current_epoch + 1) % 5" in finding.change


def test_a_hook_of_the_module_is_changed_where_it_is_unless_it_decides_what_is_learned(evaluate):
    (finding,) = evaluate(WORK, records=ends(50, 50, name="other/on_train_epoch_end"))
    assert finding.change.startswith("# in on_train_epoch_end, ")
    (finding,) = evaluate(WORK, records=ends(50, 50, name="other/EMA"))
    assert finding.change is None
    assert "must run in every epoch" in finding.advice


def test_single_times_short_times_and_this_packages_own_callbacks_are_not_reported(evaluate):
    for records in (
        ends(500, 10),
        ends(2, 2, 2),
        ends(50, 50, name="callbacks/GpuProfCallback"),
        ends(50, 50, name="validation/on_validation_epoch_end"),
    ):
        assert evaluate(WORK, records=records) == ()


def test_on_a_gpu_it_may_be_a_wait_for_the_device(evaluate):
    (finding,) = evaluate(WORK, records=ends(50, 30, 30, 40), device=Device(type="cuda"))
    assert span(finding) == (0, 1_440_000)
    assert finding.confidence == 0.5
