from rule_cases import MS, US, WORK, every, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag


def test_the_interval_is_for_a_hundredth_of_the_time_but_within_a_run_that_has_ended(evaluate):
    phases = {**WORK, "checkpoint": every(10, 20 * MS, first=9)}
    flags = every(10, StepFlag.CHECKPOINT, first=9)
    finding = evaluate(phases, flags=flags)
    assert finding.evidence["per_checkpoint_ns"] == 20 * MS
    assert finding.change == "ModelCheckpoint(..., every_n_train_steps=50)"
    assert span(finding) == (1_280 * US, 1_920 * US)
    goes_on = evaluate(phases, flags=flags, end=False)
    assert goes_on.change == "ModelCheckpoint(..., every_n_train_steps=200)"


SAVED = {**WORK, "checkpoint": 1}
BETWEEN = OutsideSpan(
    "epoch_end", 0, 50 * MS, phase_ns={"checkpoint": 50 * MS}, flagged={"checkpoint": 1}
)


def epochs_of(steps):
    return {"columns": {"epoch": [step // steps for step in range(100)]}}


def test_checkpoints_between_epochs_count(evaluate):
    parts = {"checkpoint/ModelCheckpoint": 1}
    finding = evaluate(SAVED, records=[BETWEEN] * 5, parts=parts, **epochs_of(20))
    assert finding.evidence["checkpoints_count"] == 5
    assert finding.evidence["checkpoint_ns"] == 2_500_001
    assert finding.severity is Severity.CRITICAL
    assert finding.change == "ModelCheckpoint(..., every_n_epochs=5)"
    assert span(finding) == (1_600_001, 2_400_001)


def test_a_run_of_few_epochs_still_ends_with_a_checkpoint(evaluate):
    finding = evaluate(SAVED, records=[BETWEEN] * 3, **epochs_of(40))
    assert finding.change == "ModelCheckpoint(..., every_n_epochs=5, save_last=True)"
    # One of the three stays, at 1.5 ms a step for all.
    assert span(finding) == (800_001, 1_200_001)


def test_no_checkpoint_or_only_one_of_a_whole_run_is_no_finding(evaluate):
    assert evaluate(SAVED, records=[BETWEEN]) is None
    assert evaluate(WORK) is None
