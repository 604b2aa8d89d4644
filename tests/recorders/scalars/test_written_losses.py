"""A program may write to the loss on its way: what is recorded is what training_step returned."""

import pytest
from deferred_runs import Model, fit, recorded
from lightning.pytorch import Callback
from lightning.pytorch.plugins import Precision

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog


class InBackward(Model):
    def backward(self, loss):
        loss.mul_(3)
        loss.backward()


class InHook(Model):
    def on_before_backward(self, loss):
        loss.mul_(3)


class InCallback(Callback):
    def on_before_backward(self, trainer, pl_module, loss):
        loss.mul_(3)


class InPrecision(Precision):
    def pre_backward(self, tensor, module):
        return super().pre_backward(tensor.mul_(3), module)


@pytest.mark.parametrize("kind", [InBackward, InHook])
def test_a_hook_that_scales_the_loss_in_place_scales_none_that_is_recorded(tmp_path, kind):
    model = kind()
    trainer = fit(tmp_path, model, DeferredLoss())
    assert recorded(trainer) == dict(enumerate(model.items))


def test_nor_does_a_callback(tmp_path):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(), InCallback())
    assert recorded(trainer) == dict(enumerate(model.items))


def test_nor_a_precision_plugin(tmp_path):
    model = Model()
    trainer = fit(tmp_path, model, DeferredLoss(), plugins=[InPrecision()])
    assert recorded(trainer) == dict(enumerate(model.items))


@pytest.mark.parametrize("kind", [DeferredLoss, GpuProfCallback])
def test_where_nobody_could_write_to_it_no_loss_is_copied(tmp_path, monkeypatch, kind):
    copied = []
    monkeypatch.setattr(ScalarLog, "_copied", lambda log, name, value: copied.append(name))
    model = Model()
    trainer = fit(tmp_path, model, kind())
    assert recorded(trainer) == dict(enumerate(model.items))
    assert copied == []


def test_that_of_a_subclass_of_this_packages_own_is_the_programs(tmp_path):
    class Scaling(DeferredLoss):
        def on_before_backward(self, trainer, pl_module, loss):
            loss.mul_(3)

    model = Model()
    trainer = fit(tmp_path, model, Scaling())
    assert recorded(trainer) == dict(enumerate(model.items))
