"""When values of deferred losses are read and handed on, and what else is in the Trainer."""

import csv

import pytest
import torch
from deferred_runs import Model, fit, logged, recorded, scalars
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss


def test_several_loggers_get_the_same_values(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = Model()
    loggers = [CSVLogger(tmp_path), TensorBoardLogger(tmp_path, name="tb")]
    trainer = fit(tmp_path, model, DeferredLoss(window=5), logger=loggers)
    events = EventAccumulator(loggers[1].log_dir)
    events.Reload()
    in_tensorboard = {event.step: event.value for event in events.Scalars("loss")}
    assert in_tensorboard == logged(trainer) == dict(enumerate(model.items))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_lost_when_training_ends_early(tmp_path, error):
    class Failing(Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 5:
                raise error("stop")
            return super().training_step(batch, batch_idx)

    model, logger = Failing(), CSVLogger(tmp_path)
    with pytest.raises((error, SystemExit)):
        fit(tmp_path, model, DeferredLoss(), logger=logger)
    with open(f"{logger.log_dir}/metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == model.items
    assert len(model.items) == 5


def test_a_resumed_run_continues_its_steps(tmp_path, repeated):
    path = tmp_path / "middle.ckpt"

    class Saver(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 4:
                trainer.save_checkpoint(path)

    first, second = Model(), Model()
    fit(tmp_path, first, DeferredLoss(window=3), Saver())
    trainer = fit(tmp_path, second, DeferredLoss(window=3), ckpt_path=path)

    assert len(second.items) == 3 + repeated
    assert logged(trainer) == dict(enumerate(second.items, start=5 - repeated))
    assert {record.first_batch for record in scalars(trainer)} == {5 - repeated}


def test_values_are_flushed_before_a_checkpoint(tmp_path):
    class Saver(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 3:
                trainer.save_checkpoint(tmp_path / "x.ckpt")
                self.rows = dict(recorded(trainer))

    model, saver = Model(), Saver()
    fit(tmp_path, model, DeferredLoss(), saver)
    assert saver.rows == dict(enumerate(model.items[:4]))


def test_no_value_is_read_in_a_step(tmp_path, monkeypatch):
    class Silent(Model):
        def training_step(self, batch, batch_idx):
            return BoringModel.training_step(self, batch, batch_idx)

    reads = []
    original = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "item", lambda self: reads.append("item"))
    monkeypatch.setattr(
        torch.Tensor, "tolist", lambda self: [reads.append("tolist"), original(self)][1]
    )
    fit(tmp_path, Silent())
    bare = list(reads)
    reads.clear()
    fit(tmp_path, Silent(), DeferredLoss(window=4))
    assert reads == [*bare, "tolist", "tolist"]


def test_other_callbacks_see_the_outputs_that_lightning_makes(tmp_path):
    class Watcher(Callback):
        def __init__(self):
            self.seen = []

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.seen.append({name: float(value) for name, value in outputs.items()})

    with_us, without = Watcher(), Watcher()
    for callbacks in ((DeferredLoss(), with_us), (without,)):
        torch.manual_seed(0)
        fit(tmp_path, Model(), *callbacks, accumulate_grad_batches=3)
    assert with_us.seen == without.seen
