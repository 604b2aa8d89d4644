from rule_cases import MS, US, WORK, every, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag


def test_proposes_no_interval_beyond_a_run_that_has_ended(judge):
    finding = judge(
        "slow-checkpoint",
        {**WORK, "checkpoint": every(10, 20 * MS, first=9)},
        flags=every(10, StepFlag.CHECKPOINT, first=9),
    )
    assert finding.evidence["per_checkpoint_ns"] == 20 * MS
    assert finding.change == "ModelCheckpoint(..., every_n_train_steps=50)"
    assert span(finding) == (1_280 * US, 1_920 * US)


def test_a_run_that_goes_on_is_given_the_interval_that_keeps_it_at_a_hundredth(judge):
    finding = judge(
        "slow-checkpoint",
        {**WORK, "checkpoint": every(10, 20 * MS, first=9)},
        flags=every(10, StepFlag.CHECKPOINT, first=9),
        end=False,
    )
    assert finding.change == "ModelCheckpoint(..., every_n_train_steps=200)"


BETWEEN = OutsideSpan(
    where="epoch_end",
    start_ns=0,
    dur_ns=50 * MS,
    phase_ns={"checkpoint": 50 * MS},
    flagged={"checkpoint": 1},
)
EPOCHS_OF_TWENTY = {
    "columns": {"epoch": [step // 20 for step in range(100)]},
    "parts": {"checkpoint/ModelCheckpoint": 1},
}


def test_checkpoints_between_epochs_count(judge):
    saved = {**WORK, "checkpoint": 1}
    epochs = EPOCHS_OF_TWENTY
    finding = judge("slow-checkpoint", saved, records=[BETWEEN] * 5, **epochs)
    assert finding.evidence["checkpoints_count"] == 5
    assert finding.evidence["checkpoint_ns"] == 2_500_001
    assert finding.severity is Severity.CRITICAL
    assert finding.change == "ModelCheckpoint(..., every_n_epochs=5)"
    assert span(finding) == (1_600_001, 2_400_001)


def test_a_run_of_few_epochs_still_ends_with_a_checkpoint(judge):
    saved = {**WORK, "checkpoint": 1}
    three = {"columns": {"epoch": [step // 40 for step in range(100)]}}
    finding = judge("slow-checkpoint", saved, records=[BETWEEN] * 3, **three)
    assert finding.change == "ModelCheckpoint(..., every_n_epochs=5, save_last=True)"
    # One of the three stays, at 1.5 ms a step for all.
    assert span(finding) == (800_001, 1_200_001)


def test_the_only_checkpoint_of_a_whole_run_is_no_finding(judge):
    saved = {**WORK, "checkpoint": 1}
    assert judge("slow-checkpoint", saved, records=[BETWEEN]) is None


def test_is_silent_without_checkpoints(judge):
    assert judge("slow-checkpoint", WORK) is None
