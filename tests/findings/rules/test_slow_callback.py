import pytest
from rule_cases import MS, every

from lightning_gpuprof.findings.model import Severity

PHASES = {"forward": 7 * MS, "callbacks": 3 * MS}


def test_a_slow_callback_is_named_with_its_cost(evaluate):
    finding = evaluate(PHASES, parts={"callbacks/GradNorm": 2_900_000, "callbacks/Bar": 10_000})[0]
    assert finding.title == "GradNorm takes 2.90 ms of each step (29%)"
    assert finding.severity is Severity.CRITICAL
    assert finding.places[0].name == "GradNorm"
    assert (finding.saving_ns.low, finding.saving_ns.high) == (2_088_000, 3_410_400)
    assert "trainer.global_step % 50" in finding.change
    assert "def on_" not in finding.change  # which of its hooks takes the time is not known


def test_a_callback_that_runs_now_and_then_costs_its_mean(evaluate):
    every_tenth = every(10, 10 * MS, first=9)
    phases = {"forward": 9 * MS, "callbacks": every_tenth}
    finding = evaluate(phases, parts={"callbacks/Sampler": every_tenth})[0]
    assert finding.evidence["callback_ns"] == 1 * MS
    assert finding.evidence["callback_max_ns"] == 10 * MS
    assert finding.evidence["active_steps_count"] == 10
    assert "trainer.global_step % 50" in finding.change
    # Once in 50 is a fifth of what once in ten does.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (640_000, 960_000)


def test_work_that_was_done_once_is_not_reported(evaluate):
    once = every(100, 900 * MS, first=7)
    parts = {"callbacks/Builds": once}
    assert evaluate({"forward": 9 * MS, "callbacks": once}, parts=parts) == ()


def test_for_a_callback_of_lightning_its_own_setting_is_proposed(evaluate):
    finding = evaluate(PHASES, parts={"callbacks/TQDMProgressBar": 3 * MS})[0]
    assert finding.change == "TQDMProgressBar(refresh_rate=50)"


def test_our_own_callbacks_are_not_the_users_to_change(evaluate):
    assert evaluate(PHASES, parts={"callbacks/PhaseTimer": 3 * MS}) == ()


def test_a_schedulers_step_is_made_cheaper_not_rarer(evaluate):
    finding = evaluate(
        {"forward": 7 * MS, "other": 3 * MS}, parts={"other/lr_scheduler_step": 3 * MS}
    )[0]
    assert "Make the scheduler's function cheap" in finding.advice
    assert finding.change is None


AVERAGES = "EMA EmaCallback WeightAveraging ModelEMA StochasticWeightAveraging AveragedModel"
OTHERS = "SchemaCheck Semantics GradNorm MovingAverageLogger LossAveraging AverageMeter"


@pytest.mark.parametrize("name", [*AVERAGES.split(), "AverageOfParameters"])
def test_an_average_of_weights_is_made_rarer_only_with_its_decay(evaluate, name):
    finding = evaluate(PHASES, parts={f"callbacks/{name}": 3 * MS})[0]
    assert "decay ** N" in finding.advice
    assert "in one call" in finding.advice
    assert finding.change is None


@pytest.mark.parametrize("name", OTHERS.split())
def test_for_an_unknown_callback_the_advice_says_when_to_make_it_cheaper_instead(evaluate, name):
    finding = evaluate(PHASES, parts={f"callbacks/{name}": 3 * MS})[0]
    assert "make it cheaper" in finding.advice
    assert "trainer.global_step % 50" in finding.change


@pytest.mark.parametrize("stage", ["predict", "test", "validate"])
def test_outside_training_a_slow_callback_works_on_many_batches_at_once(evaluate, stage):
    finding = evaluate(PHASES, parts={"callbacks/TableWriter": 3 * MS}, stage=stage)[0]
    assert finding.severity is Severity.CRITICAL
    assert "for many batches in one go" in finding.advice
    assert "once in 50 steps" not in finding.advice
    assert finding.change is None  # each batch's output is wanted: no condition leaves one out
