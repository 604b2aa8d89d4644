import pytest
from rule_cases import MS

from lightning_gpuprof.findings.model import Severity, When
from lightning_gpuprof.records.schema import OutsideSpan

STEPS = {"forward": 10 * MS}
SECONDS = 1_000 * MS


def began(name, seconds):
    """Return what ran before the first step: a part that took so long."""
    phase = name.partition("/")[0]
    span = round(seconds * SECONDS)
    return [OutsideSpan("setup", 0, span, {phase: span}, {name: span})]


def test_work_before_the_first_step_is_named_with_its_share_of_the_run(evaluate):
    (finding,) = evaluate(STEPS, records=began("other/setup", 3), wall_ns=5 * SECONDS)
    assert finding.title == "setup takes 3.00 s once (60.0% of the run)"
    assert finding.when is When.BETWEEN
    assert finding.advice.endswith("A longer run does it no more often.")
    assert finding.saving_ns.low == 0
    assert finding.severity is not Severity.INFO


def test_a_logger_that_writes_for_long_as_training_starts_is_asked_about_hyperparameters(evaluate):
    records = began("logging/TensorBoardLogger", 3)
    (finding,) = evaluate(STEPS, records=records, wall_ns=5 * SECONDS)
    assert finding.title.startswith("TensorBoardLogger takes 3.00 s once")
    assert "save_hyperparameters(ignore=[...])" in finding.advice


@pytest.mark.parametrize(("seconds", "whole"), [(0.5, 2), (3, 100)])
def test_little_work_and_that_of_a_long_run_is_left_alone(evaluate, seconds, whole):
    records = began("other/setup", seconds)
    assert not evaluate(STEPS, records=records, wall_ns=whole * SECONDS)
