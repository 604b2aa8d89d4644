from rule_cases import MS, US, WORK, every, op, span

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.findings.model import Severity, When, Where
from lightning_gpuprof.findings.rules.slow_logging import LOGGED
from lightning_gpuprof.records.facts import SyncedLogs


def test_names_the_logger(judge):
    (finding,) = judge(
        "slow-logging", {**WORK, "logging": 2 * MS}, parts={"logging/CSVLogger": 2 * MS}
    )
    assert "CSVLogger" in finding.advice
    assert finding.evidence["logging_ns"] == 1_980 * US  # without the longest of 100 steps
    assert span(finding) == (1_584_000, 2_376_000)
    assert finding.change == "Trainer(..., log_every_n_steps=50)"


def test_what_a_logger_does_once_is_not_what_logging_takes(judge):
    logging = every(100, 2_000 * MS)
    assert judge("slow-logging", {**WORK, "logging": logging}) == ()


def test_where_the_calls_themselves_take_longest_they_are_what_to_guard(judge):
    parts = {"logging/self.log": 1_500 * US, "logging/CSVLogger": 500 * US}
    (finding,) = judge("slow-logging", {**WORK, "logging": 2 * MS}, parts=parts)
    assert finding.change.startswith(f"if {LOGGED}:\n    self.log(")


def test_loggers_that_get_values_often_would_get_the_guarded_ones_over_and_over(judge):
    parts = {"logging/self.log": 2_500 * US, "logging/WandbLogger": 500 * US}
    phases, trainer = {**WORK, "logging": 3 * MS}, {"log_every_n_steps": 1}
    (found,) = judge("slow-logging", phases, parts=parts, trainer=trainer)
    setting = "Trainer(..., log_every_n_steps=50)"
    assert found.change.startswith(f"{setting}\nif {LOGGED}:\n    self.log(")


def test_a_logger_that_is_called_more_often_than_the_trainer_does_is_called_by_the_program(judge):
    phases, parts = {**WORK, "logging": 2 * MS}, {"logging/WandbLogger": 2 * MS}
    (finding,) = judge("slow-logging", phases, parts=parts, trainer={"log_every_n_steps": 50})
    assert finding.change.startswith(f"if {LOGGED}:\n    self.logger")
    # 2 of 100 are the Trainer's.
    assert finding.saving_ns.high == round(1.2 * 0.98 * 2 * MS)
    assert "on_epoch" not in finding.advice


def test_a_logger_that_only_the_trainer_calls_and_seldom_is_not_told(judge):
    seldom = every(50, 100 * MS, first=49)
    parts, phases = {"logging/WandbLogger": seldom}, {**WORK, "logging": seldom}
    trainer = {"log_every_n_steps": 50}
    assert judge("slow-logging", phases, parts=parts, trainer=trainer) == ()


def test_a_value_in_each_step_is_no_warning_however_short_the_steps(judge):
    short = {"forward": 2 * MS}
    parts = {"logging/self.log": 300 * US}
    assert judge("slow-logging", {**short, "logging": 300 * US}, parts=parts)[0].severity is (
        Severity.INFO
    )
    # What the logger takes beside it is, and the setting that mends this leaves the call.
    parts["logging/CSVLogger"] = 300 * US
    often = {"log_every_n_steps": 1}
    phases = {**short, "logging": 600 * US}
    (found,) = judge("slow-logging", phases, parts=parts, trainer=often)
    assert found.severity is Severity.WARNING
    assert found.change == "Trainer(..., log_every_n_steps=50)"
    # Without the longest of 100 steps, and one in 50 stays.
    assert found.saving_ns.high == round(1.2 * 0.98 * 294 * US)
    many = {"logging/self.log": 3 * MS}
    assert judge("slow-logging", {**WORK, "logging": 3 * MS}, parts=many)[0].severity is (
        Severity.WARNING
    )


def test_norms_taken_in_a_hook_belong_to_logging_and_not_to_callbacks(judge):
    options = {
        "parts": {"other/on_before_optimizer_step": 3 * MS},
        "trace": {"operators": [op("aten::linalg_vector_norm", 10, MS)]},
    }
    (finding,) = judge("slow-logging", {**WORK, "other": 3 * MS}, **options)
    assert "on_before_optimizer_step" in finding.change
    assert finding.evidence["logging_ns"] == 3 * MS
    assert judge("slow-callback", {**WORK, "other": 3 * MS}, **options) == ()


def test_norms_taken_in_a_hook_that_logs_nothing_clip_gradients(judge):
    options = {
        "parts": {"other/on_before_optimizer_step": 3 * MS},
        "trace": {"operators": [op("aten::linalg_vector_norm", 10, MS)]},
    }
    line = LineCount("other", "t.py", 3, "hook", "total += p.grad.norm()", None, None, 20)

    def sampled(*lines):
        return [HostLines(50, lines, {"other": 50})]

    phases = {**WORK, "other": 3 * MS}
    assert judge("slow-logging", phases, records=sampled(line), **options) == ()
    (finding,) = judge("slow-callback", phases, records=sampled(line), **options)
    assert "make it cheaper" in finding.advice
    hook = "on_before_optimizer_step"
    logs = LineCount("logging", "t.py", 4, hook, "self.log_dict(norms)", None, "log", 1)
    (found,) = judge("slow-logging", phases, records=sampled(line, logs), **options)
    assert "on_before_optimizer_step" in found.change


def test_a_picture_in_each_step_is_told_with_its_line_apart_from_the_loggers(judge):
    line = LineCount(
        "logging",
        "t.py",
        7,
        "training_step",
        "board.add_image(x)",
        "torch.add_image",
        "log",
        40,
    )
    other = LineCount(
        "logging", "t.py", 9, "training_step", "self.log(y)", "lightning.log", "log", 40
    )
    lines = HostLines(100, (other, line), {"logging": 80})
    parts = {"logging/self.log": MS, "logging/experiment.add_image": 4 * MS}
    usual, picture = judge(
        "slow-logging", {**WORK, "logging": 5 * MS}, parts=parts, records=[lines]
    )
    assert usual.evidence["logging_ns"] == 990 * US
    assert picture.title.startswith("experiment.add_image takes")
    assert (picture.where[0].line, picture.where[1].name) == (7, "experiment.add_image")
    assert picture.change == f"if {LOGGED}:\n    self.logger.experiment.add_image(...)"
    # One in 50 stays.
    assert span(picture) == (
        round(0.8 * 0.98 * 3_960 * US), round(1.2 * 0.98 * 3_960 * US)
    )  # fmt: skip


def test_pictures_in_one_of_many_steps_are_proposed_a_fifth_as_often(judge):
    taken = every(20, 60 * MS, first=19)
    parts = {"logging/experiment.add_histogram": taken}
    (found,) = judge("slow-logging", {**WORK, "logging": taken}, parts=parts)
    assert found.evidence["steps_between_count"] == 20
    assert found.evidence["steps_between_count"] == 20
    assert "% 100 == 0:" in found.change
    # Four of the five times count: the first may import what draws.
    assert found.saving_ns.high == round(1.2 * 0.8 * 4 * 60 * MS / 100)


def test_pictures_in_validation_are_told_there(judge):
    taken = every(20, 60 * MS, first=19)
    parts = {"validation/experiment.add_figure": taken}
    (found,) = judge("slow-logging", {**WORK, "validation": taken, "logging": 0}, parts=parts)
    assert found.when is When.ALSO_BETWEEN
    assert found.where[0] == Where(phase="validation", name="experiment.add_figure")
    assert found.change.startswith("if batch_idx == 0 and self.current_epoch % 5 == 0:")


def test_values_that_ranks_exchange_in_each_step_are_named(judge):
    note = SyncedLogs(("loss", "accuracy"))
    options = {"parts": {"logging/self.log": 3 * MS}, "records": [note]}
    (found,) = judge("slow-logging", {**WORK, "logging": 3 * MS}, **options)
    assert "Do not log with sync_dist=True in each step (loss, accuracy)" in (found.advice)
