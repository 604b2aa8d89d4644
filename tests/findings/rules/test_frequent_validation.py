import pytest
from rule_cases import MS, US, WORK, every, span, unmarked

from lightning_gpuprof.records.schema import Loader, StepFlag

OFTEN = {
    "phases": {**WORK, "validation": every(32, 100 * MS, first=31, count=640)},
    "flags": every(32, StepFlag.VALIDATION, first=31, count=640),
    "steps": 640,
}


def test_counts_what_one_takes_and_how_many_there_were(judge):
    finding = judge(
        "frequent-validation",
        {**WORK, "validation": every(10, 30 * MS, first=9)},
        flags=every(10, StepFlag.VALIDATION, first=9),
    )
    assert finding.evidence["validations_count"] == 10
    assert finding.change == "Trainer(..., val_check_interval=100)"
    # Of the 3 ms a step, a tenth stays.
    assert span(finding) == (2_160 * US, 3_240 * US)


def test_those_in_steps_without_marks_count(judge):
    phases = {**WORK, "validation": every(50, 30 * MS, first=9)}
    flags = every(50, StepFlag.VALIDATION, first=9)
    more = unmarked(100, phase_ns={"validation": 240 * MS}, flagged={"validation": 8})
    evidence = judge("frequent-validation", phases, flags=flags, records=[more]).evidence
    assert evidence["validations_count"] == 10
    assert (evidence["validation_ns"], evidence["per_validation_ns"]) == (1_500 * US, 30 * MS)


def test_one_hook_that_is_most_of_it_is_named(judge):
    phases = {**WORK, "validation": every(10, 30 * MS, first=9)}
    flags = every(10, StepFlag.VALIDATION, first=9)
    for part, named in ((20 * MS, "on_validation_epoch_end"), (10 * MS, None)):
        parts = {"validation/on_validation_epoch_end": every(10, part, first=9)}
        finding = judge("frequent-validation", phases, flags=flags, parts=parts)
        assert finding.where[0].name == named
        assert bool(finding.explains) is (named is not None)
        assert finding.advice.startswith(f"Most of it is {named}:") is (named is not None)


def test_an_interval_beyond_the_epoch_is_given_in_epochs(judge):
    finding = judge("frequent-validation", **OFTEN, loader=Loader(length=64))
    assert finding.change == "Trainer(..., check_val_every_n_epoch=6, val_check_interval=1.0)"
    halves = {"val_check_interval": 0.5, "limit_train_batches": 1.0}
    finding = judge("frequent-validation", **OFTEN, loader=Loader(length=64), trainer=halves)
    assert finding.change == ("Trainer(..., check_val_every_n_epoch=6, val_check_interval=1.0)")


def test_a_run_too_short_for_the_interval_is_told_of_fewer_batches(judge):
    phases = {**WORK, "validation": every(50, 900 * MS, first=49)}
    flags = every(50, StepFlag.VALIDATION, first=49)
    finding = judge("frequent-validation", phases, flags=flags, loader=Loader(length=50))
    assert finding.change == "Trainer(..., limit_val_batches=0.2)"


@pytest.mark.parametrize(("each_ns", "told"), [(100 * MS, False), (2_000 * MS, True)])
def test_short_validations_once_an_epoch_are_not_told(judge, each_ns, told):
    finding = judge(
        "frequent-validation",
        {**WORK, "validation": every(50, each_ns, first=49)},
        flags=every(50, StepFlag.VALIDATION, first=49),
        columns={"epoch": [step // 50 for step in range(100)]},
    )
    assert (finding is not None) is told


SINGLY = {
    "phases": {**WORK, "validation": every(50, 64 * MS, first=49)},
    "flags": every(50, StepFlag.VALIDATION, first=49),
    "parts": {"validation/next batches": every(50, 4 * MS, first=49)},
    "columns": {"epoch": [step // 50 for step in range(100)], "samples": 16},
}


@pytest.mark.parametrize("size", [None, 9, 16])
def test_batches_that_are_not_much_smaller_are_not(judge, size):
    loader = Loader(batch_size=size, length=64 // (size or 1))
    assert judge("frequent-validation", **SINGLY, validation_loader=loader) is None
