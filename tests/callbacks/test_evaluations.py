"""`validate`, `test` and `predict` under GpuProfCallback: each a run of its own."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.cli import main
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.records.files import find_runs
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, ProfilerCycle
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.runtime.guard import is_disabled

STAGES = ["validate", "test", "predict"]
STEPS = 18


class Model(BoringModel):
    def val_dataloader(self):
        return DataLoader(RandomDataset(32, 2 * STEPS), batch_size=2)

    test_dataloader = predict_dataloader = val_dataloader

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self(batch)


def quiet(**options):
    return GpuProfCallback(report=False, console=False, **options)


def evaluate(folder, stage, *callbacks, model=None, loaders=None, **options):
    torch.manual_seed(0)
    trainer = Trainer(callbacks=list(callbacks), logger=CSVLogger(folder), **options)
    said = {} if stage == "predict" else {"verbose": False}
    return trainer, getattr(trainer, stage)(model or Model(), loaders, **said)


def session_of(trainer, stage):
    return read_run(str(Path(trainer.log_dir) / stage))[0].sessions[-1]


@pytest.mark.parametrize("stage", STAGES)
def test_every_nanosecond_is_in_its_phase_of_a_batch(planted, clock, tmp_path, stage):
    class Planted(planted.Model):
        def val_dataloader(self):
            return self.loader(planted.Data(self.clock))

        test_dataloader = predict_dataloader = val_dataloader

    parts = {"trace": False, "lines": False, "device_stats": False}
    callback = quiet(clock=clock, window=4, **parts)
    trainer = planted.make_trainer(callback, clock, tmp_path)
    getattr(trainer, stage)(Planted(clock), **({} if stage == "predict" else {"verbose": False}))

    (measured,) = planted.sessions(callback)
    measured.check_sums()
    assert measured.phase_ns() == planted.planted_by_phase(clock)
    assert measured.session.start.stage == stage
    assert measured.columns["batch_idx"].tolist() == list(range(planted.STEPS))
    assert measured.columns["samples"].tolist() == [planted.BATCH] * planted.STEPS
    assert (measured.columns["phase/data_wait"] > 0).all()


@pytest.mark.parametrize("stage", STAGES)
def test_a_trace_of_three_batches_the_loader_and_single_facts_are_recorded(tmp_path, stage):
    callback = quiet()
    trainer, _ = evaluate(tmp_path, stage, callback)
    session = session_of(trainer, stage)

    assert not [part for part in callback.parts if is_disabled(part)]
    assert (session.steps, session.end.status) == (STEPS, "finished")
    (cycle,) = session.all(ProfilerCycle)
    assert (cycle.first_step, cycle.last_step) == (12, 14)
    assert (session.start.loader.num_workers, session.start.loader.length) == (0, STEPS)
    assert session.start.validation_loader is None
    assert session.last(CoreWait) is not None
    document = build_run(load_report(str(Path(trainer.log_dir) / stage), analyse=True))
    assert document.subject.facts["stage"] == stage
    assert any(row["name"] == "aten::addmm" for row in document.rows("operators"))


def test_predictions_are_the_same_to_the_bit(tmp_path):
    _, plain = evaluate(tmp_path / "plain", "predict")
    _, watched = evaluate(tmp_path / "watched", "predict", quiet(modules=["layer"]))
    assert len(plain) == STEPS
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


def test_rules_of_training_say_nothing_of_an_evaluation(tmp_path):
    trainer, _ = evaluate(tmp_path, "predict", quiet())
    report = load_report(str(Path(trainer.log_dir) / "predict"))
    reasons = {one.id: one.reason for one in report.abstained}
    for name in ("unfused-optimizer", "slow-logging", "worker-startup"):
        assert reasons[name] == "it is about training, and this run does not train"
    judged = {one.id for one in report.findings} | set(report.silent)
    assert {"data-wait", "slow-callback", "slow-host-to-device-copy", "memory-growth"} <= judged


def test_a_fit_and_what_follows_are_runs_of_their_own_and_the_fit_comes_first(tmp_path, capsys):
    callback = quiet(trace=False)
    trainer = Trainer(
        callbacks=[callback], logger=CSVLogger(tmp_path), max_epochs=1, limit_train_batches=6
    )
    for call in (trainer.fit, trainer.test, trainer.predict, trainer.predict):
        call(Model())
    log_dir = trainer.log_dir

    names = [Path(run).name for run in find_runs(log_dir)]
    assert names == [Path(log_dir).name, "predict", "test"]
    (fit,) = read_run(log_dir)[0].sessions
    assert (fit.start.stage, fit.steps) == ("fit", 6)
    # A validation inside the fit stays a phase of it.
    assert fit.phase_ns(Phase.VALIDATION) is not None
    assert len(read_run(f"{log_dir}/predict")[0].sessions) == 2

    capsys.readouterr()
    assert main(["report", str(tmp_path)]) == 0
    assert f"{log_dir}: fit, finished, 6 steps" in capsys.readouterr().out
    assert main(["report", f"{log_dir}/predict"]) == 0
    assert "predict, session 1, finished, 18 steps" in capsys.readouterr().out


def test_two_evaluations_can_be_compared(tmp_path, capsys):
    runs = []
    for number in range(2):
        trainer, _ = evaluate(tmp_path / str(number), "predict", quiet(trace=False))
        runs.append(str(Path(trainer.log_dir) / "predict"))
    assert main(["compare", *runs]) == 0
    assert "predict against predict" in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_a_fit_after_an_evaluation_is_recorded_as_ever(tmp_path, stage):
    callback = quiet(trace=False)
    trainer, _ = evaluate(tmp_path, stage, callback, limit_train_batches=3, max_epochs=1)
    trainer.fit(Model())
    assert read_run(trainer.log_dir)[0].sessions[0].steps == 3


def test_several_loaders_and_a_subclass_with_hooks_of_its_own(tmp_path):
    class Own(GpuProfCallback):
        seen = 0

        def on_predict_batch_end(self, *args):
            self.seen += 1

    callback = Own(report=False, console=False, trace=False)
    data = [DataLoader(RandomDataset(32, 6), batch_size=size) for size in (2, 3)]
    trainer, _ = evaluate(tmp_path, "predict", callback, loaders=data)
    session = session_of(trainer, "predict")
    assert session.columns["samples"].tolist() == [2, 2, 2, 3, 3]
    assert callback.seen == 5
    assert not [part for part in callback.parts if is_disabled(part)]


def test_a_given_schedule_that_an_evaluation_is_too_short_for_is_no_error(tmp_path):
    trainer, _ = evaluate(tmp_path, "test", quiet(wait=100))
    (note,) = [one for one in session_of(trainer, "test").all(Note) if one.name == "no-trace"]
    assert "this run has at most 18" in note.message


def test_an_error_in_an_evaluation_ends_its_session(tmp_path):
    class Fails(Model):
        def predict_step(self, batch, batch_idx):
            if batch_idx == 7:
                raise ValueError("planted")
            return super().predict_step(batch, batch_idx)

    with pytest.raises(ValueError, match="planted"):
        evaluate(tmp_path, "predict", quiet(), model=Fails())
    (run,) = find_runs(str(tmp_path))
    (session,) = read_run(run)[0].sessions
    assert (session.end.status, session.end.error) == ("exception", "ValueError: planted")
    assert session.steps >= 7


def test_the_report_is_shown_at_its_end(tmp_path, shown):
    evaluate(tmp_path, "predict", GpuProfCallback(trace=False))
    assert shown("predict, finished, 18 steps")
