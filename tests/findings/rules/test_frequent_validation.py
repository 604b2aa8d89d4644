import pytest
from rule_cases import MS, US, WORK, every, span, unmarked

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.schema import Loader, StepFlag


def validated(steps, ns, *, first=None, count=100):
    """A run that validates for so long every so many steps."""
    first = steps - 1 if first is None else first
    phases = {**WORK, "validation": every(steps, ns, first=first, count=count)}
    flags = every(steps, StepFlag.VALIDATION, first=first, count=count)
    return {"phases": phases, "flags": flags, "steps": count}


def test_counts_validations_and_their_mean_time(evaluate):
    finding = evaluate(**validated(10, 30 * MS))
    assert finding.evidence["validations_count"] == 10
    assert finding.change == "Trainer(..., val_check_interval=100)"
    # Of the 3 ms a step, a tenth stays.
    assert span(finding) == (2_160 * US, 3_240 * US)


def test_validations_in_steps_without_marks_count(evaluate):
    more = unmarked(100, phase_ns={"validation": 240 * MS}, flagged={"validation": 8})
    evidence = evaluate(**validated(50, 30 * MS, first=9), records=[more]).evidence
    assert evidence["validations_count"] == 10
    assert (evidence["validation_ns"], evidence["per_validation_ns"]) == (1_500 * US, 30 * MS)


def test_a_hook_that_takes_most_of_validation_is_named(evaluate):
    for part, named in ((20 * MS, "on_validation_epoch_end"), (10 * MS, None)):
        parts = {"validation/on_validation_epoch_end": every(10, part, first=9)}
        finding = evaluate(**validated(10, 30 * MS), parts=parts)
        assert finding.places[0].name == named
        assert bool(finding.explains) is (named is not None)
        assert finding.advice.startswith(f"Most of it is {named}:") is (named is not None)


@pytest.mark.parametrize(
    "trainer", [{}, {"val_check_interval": 0.5, "limit_train_batches": 1.0}], ids=["", "halves"]
)
def test_an_interval_beyond_the_epoch_is_given_in_epochs(evaluate, trainer):
    often = validated(32, 100 * MS, count=640)
    finding = evaluate(**often, loader=Loader(length=64), trainer=trainer)
    assert finding.change == "Trainer(..., check_val_every_n_epoch=6, val_check_interval=1.0)"


def test_in_a_run_too_short_for_the_interval_fewer_batches_are_proposed(evaluate):
    finding = evaluate(**validated(50, 900 * MS), loader=Loader(length=50))
    assert finding.change == "Trainer(..., limit_val_batches=0.2)"


@pytest.mark.parametrize(("each_ns", "reported"), [(100 * MS, False), (2_000 * MS, True)])
def test_short_validations_once_per_epoch_are_not_reported(evaluate, each_ns, reported):
    columns = {"epoch": [step // 50 for step in range(100)]}
    assert (evaluate(**validated(50, each_ns), columns=columns) is not None) is reported


def test_the_line_that_takes_most_of_validation_is_named(analyze):
    sampled = (
        LineCount("validation", "t.py", 36, "decode", "self.decoder(x)", "torch.call", "model", 16),
        LineCount("validation", "t.py", 50, "validation_step", "self.log(x)", "l.log", "log", 4),
        LineCount("forward", "t.py", 12, "training_step", "self(x)", "torch.call", "model", 60),
    )
    lines = HostLines(90, sampled, {"validation": 20, "forward": 70})
    run = analyze(**validated(10, 30 * MS), records=[lines])
    (finding,) = evaluate_rules(run, [rules()["frequent-validation"]]).findings
    assert [(at.file, at.line) for at in finding.places if at.file] == [("t.py", 36)]
