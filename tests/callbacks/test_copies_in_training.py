"""Callbacks, and the model that they look at, may be copied at any moment of training."""

import copy
import pickle

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback

HOOKS = (
    "on_train_start",
    "on_train_batch_start",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
    "on_train_epoch_end",
    "on_train_end",
)


class Idle(BoringModel):
    """Has a part that nobody trains, which the first batches look at more closely."""

    def __init__(self):
        super().__init__()
        self.idle = torch.nn.Linear(32, 2)

    def training_step(self, batch, batch_idx):
        return {"loss": self.loss(self.layer(batch)) + self.loss(self.idle(batch))}

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.1)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 20))


class AtEachHook(Callback):
    def __init__(self, act):
        self.times = 0

        def hook(trainer, pl_module, *_):
            self.times += 1
            act(trainer, pl_module)

        self.__dict__.update(dict.fromkeys(HOOKS, hook))


@pytest.fixture
def train(session_of):
    """Trains with something done at each hook, before those of the callback and behind them."""

    def trained(act):
        each = AtEachHook(act), AtEachHook(act)
        profiling = GpuProfCallback(
            report=False, console=False, wait=8, warmup=1, active=2, repeat=0
        )
        session_of(Idle(), each[0], profiling, each[1])
        assert min(one.times for one in each) > 100

    return trained


def test_the_callback(train):
    def act(trainer, pl_module):
        profiling = next(one for one in trainer.callbacks if isinstance(one, GpuProfCallback))
        assert copy.deepcopy(profiling).parts
        pickled = pickle.dumps(profiling)
        assert b"phase_clock" not in pickled  # nor what it reaches: not all of it can be pickled
        assert pickle.loads(pickled).parts

    train(act)


def test_a_copy_of_the_model_needs_nothing_of_this_package(train):
    def act(trainer, pl_module):
        assert b"gpuprof" not in pickle.dumps(pl_module)
        copied = copy.deepcopy(pl_module)
        assert copied.log.__self__ is copied
        hooks = [hook for part in copied.modules() for hook in part._forward_pre_hooks.values()]
        assert not [hook for hook in hooks if "gpuprof" in type(hook).__module__]
        copied(torch.ones(1, 32))
        copied.idle(torch.ones(1, 32))

    train(act)
