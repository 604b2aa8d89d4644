import copy
import csv
import gzip
import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.plugins import MixedPrecision

from lightning_gpuprof.analysis.compare.same_values import check_values
from lightning_gpuprof.callbacks import deferred_loss
from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.output import run_output
from lightning_gpuprof.callbacks.output.run_output import RunOutput
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.callbacks.scalars.logger_pace import LoggerPace
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.scalars.scalar_log import ScalarLog
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Scalars


class Model(BoringModel):
    """Keeps what `.item()` would have given in each step."""

    def __init__(self):
        super().__init__()
        self.items = []

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.items.append(loss.item())
        return {"loss": loss, "kl": loss.detach() * 2}


class ManualModel(Model):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        outputs = super().training_step(batch, batch_idx)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(outputs["loss"])
        optimizer.step()
        return outputs


def fit(tmp_path, model, *callbacks, ckpt_path=None, logger=None, **options):
    options = {
        "max_epochs": 1,
        "limit_train_batches": 8,
        "limit_val_batches": 0,
        **options,
    }
    trainer = Trainer(callbacks=list(callbacks), logger=logger or CSVLogger(tmp_path), **options)
    trainer.fit(model, ckpt_path=ckpt_path)
    return trainer


def logged(trainer, name="loss"):
    with open(f"{trainer.loggers[0].log_dir}/metrics.csv", newline="") as file:
        return {int(r["step"]): float(r[name]) for r in csv.DictReader(file) if r.get(name)}


def scalars(trainer, session=0):
    return read_run(trainer.loggers[0].log_dir)[0].sessions[session].all(Scalars)


def recorded(trainer, name="loss", session=0):
    return {
        step: value
        for record in scalars(trainer, session)
        for step, value in zip(record.steps, record.values[name], strict=True)
    }


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


def test_step_numbers_are_those_of_self_log(tmp_path):
    class LoggingModel(Model):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            self.log("theirs", outputs["loss"])
            return outputs

    for steps in ({}, {"accumulate_grad_batches": 2}, {"accumulate_grad_batches": 3}):
        trainer = fit(
            tmp_path, LoggingModel(), DeferredLoss(window=3), log_every_n_steps=1, **steps
        )
        assert logged(trainer) == logged(trainer, "theirs")


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_step_numbers_are_right_wherever_a_checkpoint_is_made(tmp_path, accumulate):
    class Saving(Model):
        def training_step(self, batch, batch_idx):
            deferred.state_dict()
            outputs = super().training_step(batch, batch_idx)
            self.log("theirs", outputs["loss"])
            return outputs

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx % 2:
                deferred.state_dict()

    deferred = DeferredLoss(window=3)
    options = {"log_every_n_steps": 1, "accumulate_grad_batches": accumulate}
    trainer = fit(tmp_path, Saving(), deferred, **options)
    assert logged(trainer) == logged(trainer, "theirs")


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_loss_is_not_the_one_that_a_gradient_scaler_multiplied(tmp_path, accumulate):
    model = Model()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    trainer = fit(
        tmp_path,
        model,
        DeferredLoss(window=3),
        plugins=[MixedPrecision("16-mixed", "cpu", scaler=scaler)],
        accumulate_grad_batches=accumulate,
    )
    assert scaler.get_scale() > 1, "it was at work"
    assert recorded(trainer) == dict(enumerate(model.items))


@pytest.mark.parametrize("accumulate", [1, 2, 3, 7])
def test_the_loss_is_training_steps_own_while_gradients_accumulate(tmp_path, accumulate):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(window=3), accumulate_grad_batches=accumulate)
    assert recorded(trainer) == dict(enumerate(model.items))


def test_accumulation_that_changes_between_epochs_is_followed(tmp_path):
    model = Model()
    scheduler = GradientAccumulationScheduler({0: 3, 1: 1, 2: 5})
    trainer = fit(tmp_path, model, DeferredLoss(), scheduler, max_epochs=3)
    assert recorded(trainer) == dict(enumerate(model.items))


def test_other_callbacks_see_the_outputs_that_lightning_makes(tmp_path):
    class Watcher(Callback):
        def __init__(self):
            self.seen = []

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.seen.append({name: float(value) for name, value in outputs.items()})

    with_us, without = Watcher(), Watcher()
    for callbacks in ((DeferredLoss(), with_us), (without,)):
        torch.manual_seed(0)
        trainer = fit(tmp_path, Model(), *callbacks, accumulate_grad_batches=3)
    assert with_us.seen == without.seen
    assert "output_result_cls" not in vars(trainer.fit_loop.epoch_loop.automatic_optimization)


def test_manual_optimization_is_recorded(tmp_path):
    model = ManualModel()
    trainer = fit(tmp_path, model, DeferredLoss(("loss", "kl"), window=3))
    assert logged(trainer) == dict(enumerate(model.items))


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


def test_nothing_is_lost_when_ctrl_c_comes_while_a_window_is_closed(tmp_path, monkeypatch):
    close_window, interrupts = ScalarLog.close_window, [True]

    def interrupted(log):
        if interrupts:
            interrupts.clear()
            raise KeyboardInterrupt
        close_window(log)

    monkeypatch.setattr(ScalarLog, "close_window", interrupted)
    model, logger = Model(), CSVLogger(tmp_path)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        fit(tmp_path, model, DeferredLoss(window=3), logger=logger)
    with open(f"{logger.log_dir}/metrics.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["loss"]]
    assert [int(row["step"]) for row in rows] == [0, 1, 2]
    assert [float(row["loss"]) for row in rows] == model.items


def test_the_epochs_means_reach_the_logger(tmp_path):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(window=3), max_epochs=2)
    means = {7: sum(model.items[:8]) / 8, 15: sum(model.items[8:]) / 8}
    assert logged(trainer, "loss_epoch") == means


def test_a_resumed_run_continues_its_means(tmp_path, repeated):
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
    mean = sum([*first.items[:5], *second.items]) / (8 + repeated)
    assert logged(trainer, "loss_epoch") == {7: mean}


def test_what_a_resumed_run_records_is_held_against_the_same_batches_of_another(tmp_path, repeated):
    class Saver(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 4:
                trainer.save_checkpoint(tmp_path / "middle.ckpt")

    one, other = Model(), Model()
    whole = fit(tmp_path / "whole", one, DeferredLoss(), Saver())
    resumed = fit(tmp_path / "on", other, DeferredLoss(), ckpt_path=tmp_path / "middle.ckpt")

    assert recorded(resumed) == dict(enumerate(other.items))
    (check,) = check_values(scalars(whole), scalars(resumed), tolerance=0.0)
    assert check.count == 3 + repeated
    assert (check.last_base, check.last_new) == (one.items[-1], other.items[-1])


def test_values_are_flushed_before_a_checkpoint(tmp_path):
    class Saver(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 3:
                trainer.save_checkpoint(tmp_path / "x.ckpt")
                self.rows = dict(recorded(trainer))

    model, saver = Model(), Saver()
    fit(tmp_path, model, DeferredLoss(), saver)
    assert saver.rows == dict(enumerate(model.items[:4]))


def test_a_metric_that_is_no_number_is_left_out_with_its_name(tmp_path):
    class Shapes(Model):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) | {"bad": torch.zeros(3)}

    model = Shapes()
    with pytest.warns(UserWarning, match=r"'bad' has shape \(3,\)"):
        trainer = fit(tmp_path, model, DeferredLoss(("loss", "bad")))
    assert logged(trainer) == dict(enumerate(model.items))


def test_a_metric_that_never_came_is_named_at_the_end(tmp_path):
    with pytest.warns(UserWarning, match=r"recorded nothing for \['los'\]"):
        fit(tmp_path, Model(), DeferredLoss(("loss", "los")))


@pytest.mark.parametrize("on_epoch", [False, True])
def test_a_name_that_the_module_logs_itself_is_left_to_it(tmp_path, on_epoch):
    class Logs(Model):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            self.log("loss", 7.0, on_step=not on_epoch, on_epoch=on_epoch)
            return outputs

    model = Logs()
    trainer = fit(tmp_path, model, DeferredLoss(("loss", "kl"), window=3), log_every_n_steps=4)
    assert logged(trainer) == ({7: 7.0} if on_epoch else {3: 7.0, 7: 7.0})
    assert len(logged(trainer, "kl")) == 8
    assert recorded(trainer) == dict(enumerate(model.items))


def test_the_modules_own_mean_of_an_epoch_is_left_to_it(tmp_path):
    class Logs(Model):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            self.log("loss", 7.0, on_step=True, on_epoch=True)
            return outputs

    trainer = fit(tmp_path, Logs(), DeferredLoss())
    assert logged(trainer, "loss_epoch") == {7: 7.0}


def test_loggers_can_get_fewer_steps_than_the_records(tmp_path):
    model = Model()
    deferred = DeferredLoss(log_every_n_steps=4, prefix="train/", epoch_mean=False)
    trainer = fit(tmp_path, model, deferred)
    assert logged(trainer, "train/loss") == {0: model.items[0], 4: model.items[4]}
    assert len(recorded(trainer)) == 8


class Server(Logger):
    """Takes a millisecond per call, by a clock that only it moves."""

    name, version = "server", 0

    def __init__(self, clock):
        super().__init__()
        self.clock, self.steps = clock, []

    def log_hyperparams(self, *args):
        pass

    def log_metrics(self, metrics, step):
        self.clock.now += 1_000_000
        self.steps.append(step)


def log_steps(pace, count):
    for step in range(count):
        if pace.is_due(step):
            pace.log({"loss": 1.0}, step)


def test_a_slow_logger_gets_the_trainers_pace_and_that_is_said():
    clock = SimpleNamespace(now=0)
    server = Server(clock)
    pace = LoggerPace(server, every=None, slow_every=10, now=lambda: clock.now)
    with pytest.warns(UserWarning, match=r"Server takes 1\.0 ms .* one step in 10 "):
        log_steps(pace, 30)
    assert server.steps == [0, 1, 2, 10, 20]


def test_a_slow_logger_gets_what_was_asked_for_outright():
    clock = SimpleNamespace(now=0)
    server = Server(clock)
    pace = LoggerPace(server, every=1, slow_every=10, now=lambda: clock.now)
    log_steps(pace, 5)
    assert server.steps == [0, 1, 2, 3, 4]


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


def test_a_trace_of_its_steps_holds_no_read_of_a_value(tmp_path):
    reads = {}
    for reading in (True, False):

        class Steps(BoringModel):
            def training_step(self, batch, batch_idx, reading=reading):
                outputs = super().training_step(batch, batch_idx)
                if reading:
                    outputs["loss"].item()
                return outputs

        schedule = ProfilerSchedule(wait=2, warmup=1, active=6, finish_timeout_s=60)
        trainer = fit(tmp_path, Steps(), DeferredLoss(window=2), schedule, limit_train_batches=12)
        [path] = Path(trainer.loggers[0].log_dir).rglob("*.pt.trace.json.gz")
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        assert sum(event["name"].startswith("ProfilerStep#") for event in events) >= 6
        reads[reading] = sum(event["name"] == "aten::item" for event in events)
    assert reads == {True: 6, False: 0}


def test_a_loss_that_is_overwritten_later_keeps_its_value(tmp_path):
    class Static(ManualModel):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)["loss"].detach()
            self.static = getattr(self, "static", torch.zeros(())).copy_(loss)
            return {"loss": self.static, "kl": self.static}

    model = Static()
    trainer = fit(tmp_path, model, DeferredLoss(("loss", "kl")))
    assert recorded(trainer) == recorded(trainer, "kl") == dict(enumerate(model.items))


def test_a_loss_of_one_value_may_have_a_shape(tmp_path):
    class Shaped(Model):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx)["loss"].reshape(1)

    model = Shaped()
    trainer = fit(tmp_path, model, DeferredLoss(window=3))
    assert recorded(trainer) == logged(trainer) == dict(enumerate(model.items))


def test_what_other_callbacks_do_to_the_loss_afterwards_is_not_recorded(tmp_path):
    class Scales(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            outputs["loss"] *= 2

    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(), Scales())
    assert recorded(trainer) == dict(enumerate(model.items))


def test_short_steps_reach_the_loggers_several_windows_at_a_time(tmp_path):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(window=1))
    records = read_run(trainer.loggers[0].log_dir)[0].sessions[0].all(Scalars)
    assert len(records) < 8
    assert recorded(trainer) == logged(trainer) == dict(enumerate(model.items))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_made_in_training_belongs_to_no_run_and_leaves_the_original_be(tmp_path, copied):
    class Copies(Callback):
        def on_train_batch_end(self, trainer, *args):
            if trainer.global_step == 4:
                self.copy = copied(trainer.callbacks[0])

    model, copies, again = Model(), Copies(), Model()
    trainer = fit(tmp_path / "first", model, DeferredLoss(window=3), copies)
    assert logged(trainer) == dict(enumerate(model.items))
    trainer = fit(tmp_path / "second", again, copies.copy)
    assert logged(trainer) == dict(enumerate(again.items))


def test_a_loop_that_is_copied_in_training_has_lightnings_own_class(tmp_path):
    class Copies(Callback):
        def on_train_batch_start(self, trainer, *args):
            loop = trainer.fit_loop.epoch_loop.automatic_optimization
            self.found = loop.output_result_cls, copy.deepcopy(loop.output_result_cls)

    copies = Copies()
    trainer = fit(tmp_path, Model(), DeferredLoss(), copies)
    own = trainer.fit_loop.epoch_loop.automatic_optimization.output_result_cls
    assert copies.found[0] is not own
    assert copies.found[1] is own


def test_two_of_them_can_be_used_together(tmp_path):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(), DeferredLoss(("kl",)), accumulate_grad_batches=3)
    assert logged(trainer, "loss").keys() == logged(trainer, "kl").keys()


@pytest.mark.parametrize(
    "options", [{"metrics": ()}, {"metrics": "loss"}, {"window": 0}, {"log_every_n_steps": -1}]
)
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        DeferredLoss(**options)


def test_the_trainer_calls_a_hook_of_it_for_a_windows_last_batch_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(run_output, "_WRITE_EVERY_NS", 0)
    deferred, called = DeferredLoss(window=3), []

    class Look(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            assert deferred.on_train_batch_end is None

        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            called.append(deferred.on_train_batch_end is not None)

    fit(tmp_path, Model(), deferred, Look())
    assert called == [False, False, True, False, False, True, False, False]


def test_what_is_on_its_way_as_a_window_is_sent_is_handed_on_a_window_later(tmp_path, monkeypatch):
    class Late:
        """A copy that is still on its way when it is first looked at."""

        def __init__(self, values):
            self.values, self.looks = values, 0

        def ready(self):
            self.looks += 1
            return self.looks > 1

        def result(self):
            return self.values

    monkeypatch.setattr(deferred_loss, "with_room", lambda room, device: Late)
    monkeypatch.setattr(RunOutput, "is_due", lambda output, written_ns: False)
    deferred, given = DeferredLoss(window=2), []

    class Look(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            given.append(deferred._sink._batches)

    model = Model()
    trainer = fit(tmp_path, model, deferred, Look())
    assert given == [0, 0, 0, 0, 2, 2, 2, 2]
    assert recorded(trainer) == dict(enumerate(model.items))


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
