import msgspec
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
        assert finding.advice.startswith(f"Make {named} cheaper first") is (named is not None)


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


def line_of(
    source, count, *, function="on_validation_epoch_end", operation=None, phase="validation"
):
    return LineCount(phase, "t.py", 31, function, source, None, "torch", count, operation=operation)


def test_a_line_of_the_users_own_is_to_be_cheaper_before_validation_is_rarer(evaluate):
    lines = HostLines(100, (line_of("ranked = scores.frob()", 64),), {"validation": 64})
    finding = evaluate(**validated(10, 30 * MS), records=[lines])
    line = "on_validation_epoch_end, t.py:31, `ranked = scores.frob()`"
    assert finding.advice.startswith("Make on_validation_epoch_end cheaper first: on fewer values")
    assert f"Most of it is {line}." in finding.advice
    assert "Validate every 100 steps" in finding.advice
    assert finding.change is None
    # From half of what the line takes to all of it.
    assert span(finding) == (1_500 * US, 3_000 * US)


def test_a_line_that_is_known_to_be_slow_has_its_own_advice(evaluate):
    source = "self.logits = x if self.logits is None else torch.cat([self.logits, x])"
    line = line_of(source, 40, function="validation_step", operation="cat")
    lines = HostLines(100, (line,), {"validation": 60})
    advice = evaluate(**validated(10, 30 * MS), records=[lines]).advice
    assert "Most of it is validation_step, t.py:31," in advice
    assert "each append copies everything before it" in advice


@pytest.mark.parametrize(
    "lines",
    [
        (line_of("y = self.net(x)", 60, function="forward"),),
        (line_of("a = b.c()", 20), line_of("x.y()", 40, function="other_function")),
        (line_of("a = b.c()", 4),),
    ],
    ids=["the model", "another function", "few samples"],
)
def test_other_lines_are_not_to_be_cheaper_first(evaluate, lines):
    whole = max(10, sum(line.count for line in lines) + 30)
    sampled = HostLines(200, lines, {"validation": whole})
    finding = evaluate(**validated(10, 30 * MS), records=[sampled])
    assert "on_validation_epoch_end" not in finding.advice
    assert finding.advice.startswith("Validate every") or "other_function" in finding.advice


def test_validations_that_take_longer_each_time_keep_something(evaluate):
    phases = {**WORK, "validation": [step * MS if step % 10 == 9 else 0 for step in range(100)]}
    flags = every(10, StepFlag.VALIDATION, first=9)
    finding = evaluate(phases, flags=flags)
    assert finding.title == "Validation takes longer each time: 19.0 ms at first, 89.0 ms by now"
    assert finding.advice.startswith("It keeps growing:")
    assert "clear()" in finding.change
    # 54 ms on average are 35 ms more than the first, in every tenth step.
    assert span(finding) == (2_800 * US, finding.cause_ns.high)


def test_validations_of_the_same_length_do_not_grow(evaluate):
    noisy = [(30 + step % 7) * MS if step % 10 == 9 else 0 for step in range(100)]
    flags = every(10, StepFlag.VALIDATION, first=9)
    assert "keeps growing" not in evaluate({**WORK, "validation": noisy}, flags=flags).advice


def test_small_batches_of_validation_come_before_rarer_validation(evaluate):
    finding = evaluate(**validated(10, 30 * MS), validation_loader=Loader(batch_size=1))
    assert finding.advice.startswith("Validation's batches hold 1 sample:")
    assert finding.change == "DataLoader(..., batch_size=32)  # validation's"


def test_validations_in_steps_without_marks_show_growth_too(evaluate):
    spans = [
        msgspec.structs.replace(
            unmarked(20, phase_ns={"validation": 2 * ms * MS}, flagged={"validation": 2}),
            start_ns=10_000 * MS + ms,
            dur_ns=(200 + 2 * ms) * MS,
        )
        for ms in range(50, 130, 10)
    ]
    finding = evaluate(**validated(50, 30 * MS), records=spans)
    assert "longer each time: 30.0 ms at first, 110 ms by now" in finding.title
