import pytest
import torch
from deferred_runs import Model, fit, logged, recorded, scalars
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.logger import DummyLogger
from lightning.pytorch.plugins import MixedPrecision

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss


def test_each_step_reaches_the_logger_with_the_value_of_item_under_its_own_number(tmp_path):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(("loss", "kl"), window=3))
    assert logged(trainer) == dict(enumerate(model.items))
    assert logged(trainer, "kl") == {step: 2 * x for step, x in enumerate(model.items)}
    assert recorded(trainer) == dict(enumerate(model.items))


def test_a_loss_that_is_nan_is_told_from_none(tmp_path):
    class Breaks(Model):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            return {"loss": outputs["loss"] * (float("nan") if batch_idx == 2 else 1)}

    trainer = fit(tmp_path, Breaks(), DeferredLoss(window=4), limit_train_batches=4)
    (record,) = scalars(trainer)
    assert record.values["loss"][2] is None
    assert record.not_finite["loss"][0] == 2


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_step_numbers_are_those_of_self_log_wherever_a_checkpoint_is_made(tmp_path, accumulate):
    class Saving(Model):
        def training_step(self, batch, batch_idx):
            deferred.on_save_checkpoint(self.trainer, self, {})
            outputs = super().training_step(batch, batch_idx)
            self.log("theirs", outputs["loss"])
            return outputs

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx % 2:
                deferred.on_save_checkpoint(self.trainer, self, {})

    deferred = DeferredLoss(window=3)
    options = {"log_every_n_steps": 1, "accumulate_grad_batches": accumulate}
    trainer = fit(tmp_path, Saving(), deferred, **options)
    # Lightning has rounded a third of a loss to float32.
    assert logged(trainer) == pytest.approx(
        logged(trainer, "theirs"), rel=2**-23 if accumulate == 3 else 0, abs=0
    )


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_loss_is_training_steps_own_before_it_is_scaled(tmp_path, scaled, accumulate):
    model = Model()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plugins = [MixedPrecision("16-mixed", "cpu", scaler=scaler)] if scaled else []
    options = {"plugins": plugins, "accumulate_grad_batches": accumulate}
    trainer = fit(tmp_path, model, DeferredLoss(window=3), **options)
    assert scaler.get_scale() > 1, "it was at work"
    expected = dict(enumerate(model.items))
    # Lightning has rounded a third of it to float32.
    assert recorded(trainer) == (
        expected if accumulate == 1 else pytest.approx(expected, rel=2**-23, abs=0)
    )


@pytest.mark.parametrize(
    ("on_step", "on_epoch", "name", "steps"),
    [(True, False, "loss", [3, 7]), (False, True, "loss", [7]), (True, True, "loss_epoch", [7])],
)
def test_a_name_that_the_module_logs_itself_is_left_to_it(tmp_path, on_step, on_epoch, name, steps):
    class Logs(Model):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            self.log("loss", 7.0, on_step=on_step, on_epoch=on_epoch)
            return outputs

    model = Logs()
    trainer = fit(tmp_path, model, DeferredLoss(("loss", "kl"), window=3), log_every_n_steps=4)
    assert logged(trainer, name) == dict.fromkeys(steps, 7.0)
    assert len(logged(trainer, "kl")) == 8
    assert recorded(trainer) == dict(enumerate(model.items))


def test_a_step_that_returns_none_is_absent(tmp_path):
    class Skipping(Model):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            return None if batch_idx == 1 else outputs

    model = Skipping()
    trainer = fit(tmp_path, model, DeferredLoss(), accumulate_grad_batches=1)
    expected = {step: item for step, item in enumerate(model.items) if step != 1}
    assert logged(trainer) == expected
    assert recorded(trainer) == expected | {1: None}


def test_a_metric_that_is_no_number_is_left_out_with_its_name(tmp_path, said):
    class Shapes(Model):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) | {"bad": torch.zeros(3)}

    model = Shapes()
    with said(r"'bad' has shape \(3,\)"):
        trainer = fit(tmp_path, model, DeferredLoss(("loss", "bad")))
    assert logged(trainer) == dict(enumerate(model.items))


def test_loggers_can_get_fewer_steps_than_the_records(tmp_path):
    model = Model()
    deferred = DeferredLoss(log_every_n_steps=4, prefix="train/")
    trainer = fit(tmp_path, model, deferred)
    assert logged(trainer, "train/loss") == {0: model.items[0], 4: model.items[4]}
    assert len(recorded(trainer)) == 8


def test_a_logger_that_may_call_a_server_gets_the_trainers_own_steps(tmp_path):
    given = []

    class Server(DummyLogger):
        def log_metrics(self, metrics, step=None):
            given.append((step, *metrics))

    loggers = [CSVLogger(tmp_path), Server()]
    trainer = fit(tmp_path, Model(), DeferredLoss(), logger=loggers, log_every_n_steps=3)
    assert [step for step, name in given if name == "loss"] == [0, 3, 6]
    assert len(logged(trainer)) == 8


def test_of_several_closures_the_last_ones_loss_counts(tmp_path):
    class LBFGS(Model):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)

        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            self.last = {**getattr(self, "last", {}), batch_idx: self.items[-1]}
            return outputs

    model = LBFGS()
    trainer = fit(tmp_path, model, DeferredLoss(window=3))
    assert len(model.items) > 8
    assert recorded(trainer) == logged(trainer) == model.last
