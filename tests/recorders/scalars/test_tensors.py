"""Outputs of many numbers: recorded in training, and held against another run's by compare."""

import csv

import pytest
import torch
from deferred_runs import Model, fit, recorded, scalars
from inspected import inspected
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.scalars.sketch import sketch


class Classifier(Model):
    """Returns logits that are off by a share of their size."""

    def __init__(self, off=0.0):
        super().__init__()
        self.off = off
        self.logits = []

    def training_step(self, batch, batch_idx):
        outputs = super().training_step(batch, batch_idx)
        random = torch.Generator().manual_seed(batch_idx)
        logits = torch.randn(16, 10, generator=random)
        logits *= 1 + self.off * torch.randn(logits.shape, generator=random)
        self.logits.append(logits)
        return {**outputs, "logits": logits}


class Silent(BoringModel):
    """Reads no value itself."""

    def training_step(self, batch, batch_idx):
        return {**super().training_step(batch, batch_idx), "logits": batch * 2}


def test_each_steps_tensor_is_kept_in_a_few_numbers_and_loggers_get_none(tmp_path):
    model = Classifier()
    trainer = fit(tmp_path, model, DeferredLoss(tensors=["logits"], window=3))
    kept = [
        row for record in scalars(trainer) for row in zip(*record.tensors["logits"], strict=True)
    ]
    assert kept == [tuple(sketch(one).tolist()) for one in model.logits]
    assert recorded(trainer) == dict(enumerate(model.items))
    with open(f"{trainer.loggers[0].log_dir}/metrics.csv", newline="") as file:
        assert set(csv.DictReader(file).fieldnames) == {"loss", "loss_epoch", "step"}


@pytest.mark.parametrize(("off", "status", "said"), [(1e-4, 0, "the same"), (0.05, 1, "differs")])
def test_compare_holds_them_within_the_tolerance(tmp_path, capsys, off, status, said):
    runs = [tmp_path / "base", tmp_path / "new"]
    for run, by in zip(runs, (0.0, off), strict=True):
        torch.manual_seed(0)
        options = {"trace": False, "report": False, "console": False, "lines": False}
        callback = GpuProfCallback(tensors=["logits"], log_dir=str(run), **options)
        fit(run, Classifier(by), callback)
    capsys.readouterr()
    assert main(["compare", *map(str, runs), "--fail-if-values-differ"]) == status
    values = capsys.readouterr().out.partition("VALUES")[2]
    assert "loss: the same" in values
    assert f"logits (tensor): {said}" in values


def test_none_makes_the_host_wait_for_a_device(tmp_path):
    deferred = DeferredLoss(tensors=["logits"], window=2)
    assert inspected(tmp_path, Silent(), deferred, steps=4).sites == ()


def test_tensors_alone_can_be_asked_for(tmp_path):
    trainer = fit(tmp_path, Classifier(), DeferredLoss((), tensors=["logits"]))
    (record,) = scalars(trainer)
    assert record.values == {}
    assert len(record.tensors["logits"][0]) == 8


def test_a_tensor_that_is_none_or_never_came_is_said(tmp_path):
    class Text(Model):
        def training_step(self, batch, batch_idx):
            return {**super().training_step(batch, batch_idx), "text": ["a"]}

    callback = DeferredLoss(tensors=["text", "logits"])
    with pytest.warns(UserWarning, match="DeferredLoss") as warned:
        trainer = fit(tmp_path, Text(), callback)
    told = [str(one.message) for one in warned if "DeferredLoss" in str(one.message)]
    assert len(told) == 2
    assert "leaves 'text' out" in told[0]
    assert "recorded nothing for ['logits']" in told[1]
    assert len(recorded(trainer)) == 8


class OfItsOwnKind(torch.Tensor):
    """Refuses whatever torch is asked to do with it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise ValueError("not with me")


@pytest.mark.parametrize(
    "odd", [torch.ones(3, device="meta"), torch.ones(3).as_subclass(OfItsOwnKind)]
)
def test_a_tensor_without_numbers_to_be_read_is_left_out_and_the_loss_is_kept(tmp_path, odd):
    class Odd(Model):
        def training_step(self, batch, batch_idx):
            return {**super().training_step(batch, batch_idx), "logits": odd}

    model = Odd()
    with pytest.warns(UserWarning, match="leaves 'logits' out"):
        trainer = fit(tmp_path, model, DeferredLoss(tensors=["logits"]))
    assert recorded(trainer) == dict(enumerate(model.items))


def test_a_name_alone_is_refused():
    with pytest.raises(ConfigError, match="no sequence"):
        DeferredLoss(tensors="logits")
