import re

import pytest
import torch
from lightning.pytorch.profilers import SimpleProfiler

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag


def test_a_resumed_run_adds_up_and_goes_on_counting_batches(
    planted, clock, timer, tmp_path, repeated
):
    planted.fit(timer, clock, tmp_path, max_steps=3)
    before = planted.planted_by_phase(clock)
    checkpoint = next((tmp_path / "checkpoints").glob("*.ckpt"))
    again = PhaseTimer(window=4, console=False, clock=clock, log_dir=str(tmp_path / "again"))

    planted.fit(again, clock, tmp_path, call_options={"ckpt_path": checkpoint})

    measured = planted.sessions(again)[0]
    measured.check_sums()
    expected = {k: v - before.get(k, 0) for k, v in planted.planted_by_phase(clock).items()}
    assert measured.phase_ns() == {name: ns for name, ns in expected.items() if ns}
    assert measured.columns["batch_idx"].tolist() == list(range(3 - repeated, 6))


@pytest.mark.parametrize(
    ("error", "status", "raised"),
    [
        (ValueError("boom"), "exception", ValueError),
        (KeyboardInterrupt(), "interrupted", SystemExit),
    ],
)
def test_a_step_that_fails_is_no_step_and_its_time_is_outside(
    planted, clock, timer, check, tmp_path, error, status, raised
):
    class Model(planted.Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 2:
                self.clock.plant(Phase.FORWARD)
                raise error
            return super().training_step(batch, batch_idx)

    profiler = SimpleProfiler()
    trainer = planted.make_trainer(timer, clock, tmp_path, profiler=profiler)
    with pytest.raises(raised):
        trainer.fit(Model(clock))

    measured = check()
    assert measured.steps == 2
    assert measured.end.status == status
    assert trainer.profiler is profiler


def test_an_exception_between_start_and_stop_does_not_shift_what_follows(
    planted, clock, timer, check, tmp_path
):
    class Model(planted.Model):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            try:
                self.optimizers().step(closure=self.fail)  # leaves `optimizer_step` started
            except ValueError:
                self.clock.plant(Phase.OPTIMIZER_STEP)  # still inside it, as far as can be told

        def fail(self):
            raise ValueError

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    assert check().steps == planted.STEPS


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_an_evaluation_writes_nothing(planted, clock, timer, tmp_path, stage):
    class Model(planted.Model):
        def val_dataloader(self):
            return self.loader(planted.Data(self.clock))

        test_dataloader = predict_dataloader = val_dataloader

    trainer = planted.make_trainer(timer, clock, tmp_path)
    getattr(trainer, stage)(Model(clock), **({} if stage == "predict" else {"verbose": False}))

    assert not list(tmp_path.rglob("*.jsonl"))


def test_steps_carry_what_was_special_about_them(planted, clock, tmp_path):
    timer = PhaseTimer(window=4, console=False, clock=clock, warmup=2)

    planted.fit(timer, clock, tmp_path, val_check_interval=2, max_epochs=2)

    columns = planted.sessions(timer)[0].columns
    flags = columns["flags"][: planted.STEPS]
    assert columns["step"].tolist() == list(range(2 * planted.STEPS))
    assert columns["epoch"].tolist() == [0] * planted.STEPS + [1] * planted.STEPS
    assert columns["batch_idx"].tolist() == list(range(planted.STEPS)) * 2

    def flagged(flag):
        return (flags & flag).astype(bool).nonzero()[0].tolist()

    assert flagged(StepFlag.WARMUP) == [0, 1]
    assert flagged(StepFlag.VALIDATION) == [1, 3, 5]
    assert flagged(StepFlag.EPOCH_START) == [0]
    assert flagged(StepFlag.CHECKPOINT) == [2, 5]
    assert flagged(StepFlag.LOGGED) == [1, 3, 5]
    assert flagged(StepFlag.UNFINISHED | StepFlag.COMPILED | StepFlag.PROFILED) == []


def test_steps_in_which_torch_compile_compiled_are_marked(planted, clock, timer, tmp_path):
    class Model(planted.Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 2:
                torch.compile(self.layer, backend="eager")(batch)
            return super().training_step(batch, batch_idx)

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    compiled = planted.sessions(timer)[0].columns["flags"] & StepFlag.COMPILED
    assert compiled.astype(bool).tolist() == [False, False, True, False, False, False]


def test_a_window_shows_one_line_whose_shares_add_up(planted, clock, tmp_path, shown):
    planted.fit(PhaseTimer(window=3, clock=clock), clock, tmp_path)

    lines = shown("[PROFILE]")
    assert len(lines) == 2
    *shares, total, step, _ = lines[0].split(" | ")
    assert total.endswith("/3 steps")
    assert (step, lines[1].split(" | ")[-2]) == ("step 3", "step 6")
    shares = [float(part.split()[-1].rstrip("%")) for part in shares]
    assert sum(shares) == pytest.approx(100.0, abs=0.001)


GUIDE = re.compile(
    r"\[PROFILE\] data: \d+\.\d% \| fwd: \d+\.\d% \| bwd: \d+\.\d% \| (?:.+ \| )?"
    r"total: \d+\.\d\ds/50 steps(?: \| .+)?"
)
"""The line that guides to hand-made profiling show, with its further fields."""


def test_a_line_keeps_to_the_form_that_guides_show(planted, clock, tmp_path, shown):
    class Slow(planted.Model):
        def training_step(self, batch, batch_idx):
            clock.now_ns += 100_000_000
            return super().training_step(batch, batch_idx)

    fifty = {"max_epochs": 50, "model": Slow(clock)}
    planted.fit(PhaseTimer(clock=clock), clock, tmp_path, **fifty)
    lines = shown("[PROFILE] data")
    assert len(lines) > 3
    assert [line for line in lines if not GUIDE.fullmatch(line)] == []


def test_scalars_go_to_every_logger_under_the_users_step_numbers(planted, clock, tmp_path):
    logged = []

    class Recording(planted.SlowLogger):
        def log_metrics(self, metrics, step=None):
            logged.append((step, sorted(metrics)))

    loggers = [Recording(clock), Recording(clock)]
    timer = PhaseTimer(window=2, console=False, clock=clock)
    planted.fit(timer, clock, tmp_path, logger=loggers)

    ours = [(step, names) for step, names in logged if names[0].startswith("gpuprof/")]
    theirs = [step for step, names in logged if not names[0].startswith("gpuprof/")]
    assert len(ours) == 2  # the clock stands still: the second window is too early
    assert "gpuprof/step_ms" in ours[0][1]
    assert ours[0][0] in range(max(theirs) + 1)


@pytest.mark.parametrize(("took_ms", "calls"), [(0, 3), (10, 2), (100, 1)])
def test_a_slow_logger_is_given_scalars_more_seldom(planted, clock, tmp_path, took_ms, calls):
    ours = []

    class Slow(planted.SlowLogger):
        def log_metrics(self, metrics, step=None):
            if not any(name.startswith("gpuprof/") for name in metrics):
                clock.now_ns += 1_500_000_000  # once in two steps, as long as a window
                return
            ours.append(step)
            clock.now_ns += took_ms * 1_000_000

    timer = PhaseTimer(window=2, console=False, clock=clock)
    planted.fit(timer, clock, tmp_path, logger=Slow(clock))

    assert len(ours) == calls


def test_skipped_epochs_and_batches_are_no_steps(planted, clock, timer, check, tmp_path):
    class Model(planted.Model):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 2 else None

    planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=2)

    assert check().steps == 4


def test_two_timers_in_one_trainer_are_refused(planted, clock, timer, tmp_path):
    with pytest.raises(ConfigError, match="two PhaseTimers"):
        planted.fit(timer, clock, tmp_path, callbacks=[PhaseTimer(clock=clock)])
