"""Frozen modules, and whether they are given the same samples again."""

import copy
import pickle

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

from lightning_gpuprof.callbacks.watches.frozen_watch import FrozenWatch
from lightning_gpuprof.records.module_calls import frozen_modules
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, ProbeDisabled


class Clock:
    now_ns = 0

    def __call__(self):
        self.now_ns += 10
        return self.now_ns


class Model(LightningModule):
    """A trained head upon a frozen body."""

    def __init__(self, *inside):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 3), *inside).requires_grad_(False)
        self.head = torch.nn.Linear(3, 1)

    def given(self, x):
        return x

    def training_step(self, batch, batch_idx):
        return self.head(self.body(self.given(batch[0]))).square().mean()

    def on_train_batch_end(self, *_):
        pickle.dumps(copy.deepcopy(self.body))

    def configure_optimizers(self):
        return torch.optim.SGD(self.head.parameters(), 0.01)


class Augmented(Model):
    def given(self, x):
        return torch.where(torch.rand(len(x), 1) < 0.5, x.flip(1), x)


class Unfrozen(Model):
    def __init__(self):
        super().__init__()
        self.body.requires_grad_(True)


class OfTrained(Model):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 6)

    def given(self, x):
        return self.first(x)


class Following(Model):
    def on_train_batch_end(self, *_):
        for weight in self.body.parameters():
            weight.data.mul_(0.99)


@pytest.fixture
def look(tmp_path):
    def fitted(model, max_epochs=3, watch=True):
        trainer = Trainer(
            callbacks=[FrozenWatch(clock=Clock())] if watch else [],
            logger=CSVLogger(tmp_path),
            max_epochs=max_epochs,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
        )
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(48, 6))
        trainer.fit(model, DataLoader(data, batch_size=4, shuffle=True))
        assert not model.body._forward_hooks
        if not watch:
            return None
        session = read_run(trainer.logger.log_dir)[0].sessions[0]
        assert session.all(ProbeDisabled) == []
        return frozen_modules(session.all(Note))

    return fitted


def test_samples_that_a_frozen_module_is_given_again_are_counted(look):
    (found,) = look(Model())
    # Three batches of four; three numbers of 4 bytes each.
    assert (found.name, found.samples, found.seen_again) == ("body", 12, 12)
    assert (found.taken_ns, found.out_bytes) == (10, 12)
    assert found.place.source == "return self.head(self.body(self.given(batch[0]))).square().mean()"


def test_samples_that_are_augmented_do_not_all_come_again(look):
    (found,) = look(Augmented())
    assert 0 < found.seen_again < 12


def test_a_target_network_that_follows_another_gives_something_else(look):
    (found,) = look(Following())
    assert found.seen_again == 0


@pytest.mark.parametrize(
    "model",
    [
        Unfrozen,
        OfTrained,
        lambda: Model(torch.nn.Dropout()),
        lambda: Model(torch.nn.BatchNorm1d(3)),
    ],
)
def test_what_may_give_something_else_is_not_noted(look, model):
    made = model()
    made.body.requires_grad_(isinstance(made, Unfrozen))
    assert look(made) == ()


def test_one_epoch_repeats_nothing(look):
    assert look(Model(), max_epochs=1) == ()


def test_training_is_the_same_with_the_look(look):
    weights = []
    for watch in (True, False):
        torch.manual_seed(1)
        model = Augmented()
        look(model, watch=watch)
        weights.append(model.head.weight.detach().clone())
    assert torch.equal(*weights)
