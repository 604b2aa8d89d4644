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


class InCallback(Callback):
    def on_before_backward(self, trainer, pl_module, loss):
        loss.mul_(3)


class InPrecision(Precision):
    def pre_backward(self, tensor, module):
        return super().pre_backward(tensor.mul_(3), module)


@pytest.mark.parametrize(
    ("kind", "callbacks", "plugins"),
    [(InBackward, [], []), (Model, [InCallback()], []), (Model, [], [InPrecision()])],
)
def test_what_scales_the_loss_in_place_scales_none_that_is_recorded(
    tmp_path, kind, callbacks, plugins
):
    model = kind()
    trainer = fit(tmp_path, model, DeferredLoss(), *callbacks, plugins=plugins)
    assert recorded(trainer) == dict(enumerate(model.items))


@pytest.mark.parametrize("kind", [DeferredLoss, GpuProfCallback])
def test_no_loss_is_copied(tmp_path, monkeypatch, kind):
    copied = []
    monkeypatch.setattr(ScalarLog, "_copy_of", lambda log, name, value: copied.append(name))
    model = Model()
    trainer = fit(tmp_path, model, kind())
    assert recorded(trainer) == dict(enumerate(model.items))
    assert copied == []
