import pytest
from rule_cases import MS, US, WORK, every, op, outcome, span

from lightning_gpuprof.findings.model import Place, Severity, When
from lightning_gpuprof.findings.rules.slow_logging import LOGGED
from lightning_gpuprof.records.facts import SyncedLogs
from lightning_gpuprof.records.lines import HostLines, LineCount


def logging(ns, work=WORK):
    return {**work, "logging": ns}


def test_names_the_logger(evaluate):
    (finding,) = evaluate(logging(2 * MS), parts={"logging/CSVLogger": 2 * MS})
    assert "CSVLogger" in finding.advice
    assert finding.evidence["logging_ns"] == 1_980 * US  # without the longest of 100 steps
    assert span(finding) == (1_584_000, 2_376_000)
    assert finding.change == "Trainer(..., log_every_n_steps=50)"


def test_what_a_logger_does_once_does_not_count(evaluate):
    assert evaluate(logging(every(100, 2_000 * MS))) == ()


def test_calls_of_self_log_that_take_longest_get_a_condition(evaluate):
    parts = {"logging/self.log": 1_500 * US, "logging/CSVLogger": 500 * US}
    (finding,) = evaluate(logging(2 * MS), parts=parts)
    assert finding.change.startswith(f"if {LOGGED}:\n    self.log(")


def test_the_condition_comes_with_the_trainers_setting_if_loggers_get_values_often(evaluate):
    parts = {"logging/self.log": 2_500 * US, "logging/WandbLogger": 500 * US}
    (finding,) = evaluate(logging(3 * MS), parts=parts, trainer=OFTEN)
    setting = "Trainer(..., log_every_n_steps=50)"
    assert finding.change.startswith(f"{setting}\nif {LOGGED}:\n    self.log(")


OFTEN, SELDOM = ({"log_every_n_steps": steps} for steps in (1, 50))


def test_a_logger_called_more_often_than_the_trainer_does_is_called_by_the_program(evaluate):
    parts = {"logging/WandbLogger": 2 * MS}
    (finding,) = evaluate(logging(2 * MS), parts=parts, trainer=SELDOM)
    assert finding.change.startswith(f"if {LOGGED}:\n    self.logger")
    # 2 of 100 are the Trainer's.
    assert finding.saving_ns.high == round(1.2 * 0.98 * 2 * MS)
    assert "on_epoch" not in finding.advice


def test_a_logger_that_only_the_trainer_calls_seldom_is_not_reported(evaluate):
    seldom = every(50, 100 * MS, first=49)
    parts = {"logging/WandbLogger": seldom}
    assert evaluate(logging(seldom), parts=parts, trainer=SELDOM) == ()


def test_a_value_in_each_step_is_no_warning_however_short_the_steps(evaluate):
    short, parts = {"forward": 2 * MS}, {"logging/self.log": 300 * US}
    assert evaluate(logging(300 * US, short), parts=parts)[0].severity is Severity.INFO
    # What the logger takes beside it is, and the setting that mends this leaves the call.
    parts["logging/CSVLogger"] = 300 * US
    (finding,) = evaluate(logging(600 * US, short), parts=parts, trainer=OFTEN)
    assert finding.severity is Severity.WARNING
    assert finding.change == "Trainer(..., log_every_n_steps=50)"
    # Without the longest of 100 steps, and one in 50 stays.
    assert finding.saving_ns.high == round(1.2 * 0.98 * 294 * US)
    many = {"logging/self.log": 3 * MS}
    assert evaluate(logging(3 * MS), parts=many)[0].severity is Severity.WARNING


HOOK = "on_before_optimizer_step"
NORMS = {
    "phases": {**WORK, "other": 3 * MS},
    "parts": {f"other/{HOOK}": 3 * MS},
    "trace": {"operators": [op("aten::linalg_vector_norm", 10, MS)]},
}


def test_norms_taken_in_a_hook_belong_to_logging_and_not_to_callbacks(evaluate, judge):
    (finding,) = evaluate(**NORMS)
    assert HOOK in finding.change
    assert finding.evidence["logging_ns"] == 3 * MS
    assert judge("slow-callback", **NORMS) == ()


def test_norms_taken_in_a_hook_that_logs_nothing_clip_gradients(evaluate, judge):
    line = LineCount("other", "t.py", 3, "hook", "total += p.grad.norm()", None, None, 20)
    sampled = [HostLines(50, (line,), {"other": 50})]
    assert evaluate(**NORMS, records=sampled) == ()
    (finding,) = judge("slow-callback", **NORMS, records=sampled)
    assert "make it cheaper" in finding.advice
    logs = LineCount("logging", "t.py", 4, HOOK, "self.log_dict(norms)", None, "log", 1)
    (finding,) = evaluate(**NORMS, records=[HostLines(50, (line, logs), {"other": 50})])
    assert HOOK in finding.change


def test_a_picture_in_each_step_has_a_finding_of_its_own_with_its_line(evaluate):
    def at(number, source, callee):
        return LineCount("logging", "t.py", number, "training_step", source, callee, "log", 40)

    line = at(7, "board.add_image(x)", "torch.add_image")
    other = at(9, "self.log(y)", "lightning.log")
    lines = HostLines(100, (other, line), {"logging": 80})
    parts = {"logging/self.log": MS, "logging/experiment.add_image": 4 * MS}
    usual, picture = evaluate(logging(5 * MS), parts=parts, records=[lines])
    assert usual.evidence["logging_ns"] == 990 * US
    assert picture.title.startswith("experiment.add_image takes")
    assert (picture.places[0].line, picture.places[1].name) == (7, "experiment.add_image")
    assert picture.change == f"if {LOGGED}:\n    self.logger.experiment.add_image(...)"
    # One in 50 stays.
    assert span(picture) == tuple(round(part * 0.98 * 3_960 * US) for part in (0.8, 1.2))


def test_pictures_in_one_of_many_steps_are_proposed_a_fifth_as_often(evaluate):
    times = every(20, 60 * MS, first=19)
    parts = {"logging/experiment.add_histogram": times}
    (finding,) = evaluate(logging(times), parts=parts)
    assert finding.evidence["steps_between_count"] == 20
    assert "% 100 == 0:" in finding.change
    # Four of the five times count: the first may import what draws.
    assert finding.saving_ns.high == round(1.2 * 0.8 * 4 * 60 * MS / 100)


def test_pictures_in_validation_have_a_finding_in_validation(evaluate):
    times = every(20, 60 * MS, first=19)
    parts = {"validation/experiment.add_figure": times}
    (finding,) = evaluate({**WORK, "validation": times, "logging": 0}, parts=parts)
    assert finding.when is When.ALSO_BETWEEN
    assert finding.places[0] == Place(phase="validation", name="experiment.add_figure")
    assert finding.change.startswith("if batch_idx == 0 and self.current_epoch % 5 == 0:")


def test_values_that_ranks_exchange_in_each_step_are_named(evaluate):
    synced = SyncedLogs(("loss", "accuracy"))
    parts = {"logging/self.log": 3 * MS}
    (finding,) = evaluate(logging(3 * MS), parts=parts, records=[synced])
    assert "Do not log with sync_dist=True in each step (loss, accuracy)" in (finding.advice)


@pytest.mark.parametrize(("world", "expected"), [(2, False), (1, True)])
def test_a_possible_wait_for_a_rank_without_records_is_not_a_cost_of_logging(
    ranks, world, expected
):
    first = {
        "phases": {"forward": 9 * MS, "logging": 6 * MS},
        "parts": {"logging/self.log": 6 * MS},
    }
    run = ranks(first | {"records": [SyncedLogs(("loss",))]}, world=world)
    assert bool(outcome("slow-logging", run)) is expected
