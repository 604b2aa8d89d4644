import pytest
from rule_cases import EPOCH_FLAGS, MS, WORK, every, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Severity, When
from lightning_gpuprof.records.lines import LineCount, OutsideLines
from lightning_gpuprof.records.schema import Device, OutsideSpan, StepFlag


def ends(name, *each_ms):
    """Return the ends of epochs at which a part took so long, or the rest of a phase."""
    phase, _, part = name.partition("/")
    return [
        OutsideSpan("epoch_end", 0, ms * MS, {phase: ms * MS}, {name: ms * MS} if part else {})
        for ms in each_ms
    ]


REMADE = ends("data_wait/train_dataloader", *[30] * 9)
IN_PARSE = LineCount(
    "data_wait", "train.py", 9, "parse", "float(word)", None, None, 40, part="train_dataloader"
)
ELSEWHERE = LineCount("data_wait", "train.py", 20, "open", "read()", None, None, 60, part="open")


def test_data_that_is_made_again_for_each_epoch_is_named_with_its_line(analyze):
    sampled = OutsideLines(120, (IN_PARSE, ELSEWHERE), {"data_wait": 120})
    run = analyze(WORK, flags=EPOCH_FLAGS, records=[*REMADE, sampled])
    (finding,) = evaluate_rules(run).findings
    assert finding.id == "unexplained-share"
    assert finding.title == "train_dataloader takes 30.0 ms per epoch (27% of the run)"
    assert finding.severity is Severity.CRITICAL
    assert finding.when is When.BETWEEN
    assert "9 times" in finding.advice
    assert "def train_dataloader(self):" in finding.change
    # 2.7 ms of each step, or four times of five.
    assert span(finding) == (2_160_000, 2_700_000)
    assert [(place.name, place.line) for place in finding.places] == [
        ("train_dataloader", None), (None, 9)
    ]  # fmt: skip


def test_on_a_gpu_the_device_may_be_working_meanwhile(evaluate):
    (finding,) = evaluate(WORK, flags=EPOCH_FLAGS, records=REMADE, device=Device(type="cuda"))
    assert finding.saving_ns.low == 0
    assert finding.confidence == 0.5


def test_a_loader_that_is_made_again_for_each_validation_is_no_matter_of_validating_less(analyze):
    run = analyze(
        {**WORK, "validation": every(20, 100 * MS)},
        parts={"validation/val_dataloader": every(20, 90 * MS)},
        flags=every(20, StepFlag.VALIDATION),
    )
    first, second = evaluate_rules(run).findings
    assert (first.id, second.id) == ("unexplained-share", "frequent-validation")
    assert first.title.startswith("val_dataloader takes 90.0 ms per validation (")
    assert first.when is When.ALSO_BETWEEN
    assert second.evidence["validation_ns"] == 500_000


def test_a_profiler_that_was_left_on_is_to_be_left_out(analyze):
    run = analyze(
        {**WORK, "callbacks": 2 * MS},
        parts={"callbacks/SimpleProfiler": 2 * MS},
        trainer={"profiler": "SimpleProfiler"},
    )
    (finding,) = evaluate_rules(run).findings
    assert finding.id == "unexplained-share"
    assert finding.title == "SimpleProfiler takes 2.00 ms of each step (17% of the run)"
    assert finding.change == "Trainer(...)  # without profiler="
    assert finding.saving_ns.low == 1_600_000


def test_a_profiler_that_python_calls_at_every_call_slows_the_whole_step_down(evaluate):
    trainer = {"profiler": "AdvancedProfiler", "call_hooks": ["Profile"]}
    (finding,) = evaluate(
        {**WORK, "callbacks": 2 * MS}, parts={"callbacks/AdvancedProfiler": 2 * MS}, trainer=trainer
    )
    # Its own 2 ms, and half of the other 10 ms.
    assert span(finding) == (1_600_000, 7_000_000)
    assert finding.advice.endswith("which slows the whole step down.")


@pytest.mark.parametrize(
    "records",
    [
        ends("data_wait/train_dataloader", 900, 5, 5),
        ends("data_wait/train_dataloader", *[3] * 9),
        ends("callbacks/GpuProfCallback", *[30] * 9),
        [OutsideSpan("setup", 0, 900 * MS, {"other": 900 * MS}, {"other/setup": 900 * MS})],
    ],
    ids=["once", "little", "own", "start-up"],
)
def test_what_comes_once_or_takes_little_is_left_alone(evaluate, records):
    assert evaluate(WORK, flags=EPOCH_FLAGS, records=records) == ()


@pytest.mark.parametrize(("wait_ns", "reported"), [(2 * MS, 0), (3 * MS, 1)])
def test_what_every_loop_has_is_reported_only_where_it_is_much_of_the_run(
    evaluate, wait_ns, reported
):
    findings = evaluate({**WORK, "data_wait": wait_ns})
    assert len(findings) == reported
    assert all(finding.saving_ns.low == 0 for finding in findings)
    assert not any(finding.worth_a_change for finding in findings)


def test_another_finding_about_the_same_time_knows_more(analyze):
    # `slow-epoch-end` knows of callbacks, `data-wait` of batches.
    run = analyze({**WORK, "data_wait": 9 * MS}, flags=EPOCH_FLAGS,
                  records=ends("callbacks/Plots", *[30] * 9))  # fmt: skip
    evaluation = evaluate_rules(run)
    assert {finding.id for finding in evaluation.findings} == {"slow-epoch-end", "data-wait"}
    covered = [rule for rule in evaluation.abstained if rule.id == "unexplained-share"]
    assert {rule.covered_by for rule in covered} == {"slow-epoch-end", "data-wait"}


def test_time_between_epochs_that_no_hook_claims_is_of_epochs_that_are_short(evaluate):
    (finding,) = evaluate(WORK, flags=EPOCH_FLAGS, records=ends("other", *[10] * 9))
    assert finding.title.startswith("Other work between epochs takes 10.0 ms per epoch (")
    assert "make them longer" in finding.advice
    assert span(finding) == (0, 900_000)


STEPS = {"forward": 10 * MS}
SECONDS = 1_000 * MS


def began(name, seconds):
    """Return what ran before the first step: a part that took so long."""
    phase = name.partition("/")[0]
    span = round(seconds * SECONDS)
    return [OutsideSpan("setup", 0, span, {phase: span}, {name: span})]


def test_work_before_the_first_step_is_named_with_its_share_of_the_run(evaluate):
    (finding,) = evaluate(STEPS, records=began("other/setup", 3), wall_ns=5 * SECONDS)
    assert finding.title == "setup takes 3.00 s once (60% of the run)"
    assert finding.when is When.BETWEEN
    assert finding.advice.endswith("A longer run does it no more often.")
    assert finding.saving_ns.low == 0
    assert finding.severity is not Severity.INFO


def test_a_logger_that_writes_for_long_as_training_starts_is_asked_about_hyperparameters(evaluate):
    records = began("logging/TensorBoardLogger", 3)
    (finding,) = evaluate(STEPS, records=records, wall_ns=5 * SECONDS)
    assert finding.title.startswith("TensorBoardLogger takes 3.00 s once")
    assert "save_hyperparameters(ignore=[...])" in finding.advice


def test_a_logger_has_little_to_write_before_the_first_step(evaluate):
    (finding,) = evaluate(STEPS, records=began("logging/TensorBoardLogger", 0.5), wall_ns=SECONDS)
    assert finding.saving_ns.low > 0
    assert finding.change.startswith("self.save_hyperparameters(ignore=")


@pytest.mark.parametrize(("seconds", "whole"), [(0.5, 2), (3, 100)])
def test_little_work_and_that_of_a_long_run_is_left_alone(evaluate, seconds, whole):
    records = began("other/setup", seconds)
    assert not evaluate(STEPS, records=records, wall_ns=whole * SECONDS)
