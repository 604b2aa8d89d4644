"""What watches compute for themselves is none of what a program's modes count."""

from collections import Counter

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from look_models import Attending
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from lightning_gpuprof.callbacks.watches.backend_watch import BackendWatch
from lightning_gpuprof.callbacks.watches.batch_watch import BatchWatch
from lightning_gpuprof.callbacks.watches.call_watch import CallWatch
from lightning_gpuprof.callbacks.watches.debug_watch import DebugWatch
from lightning_gpuprof.callbacks.watches.function_watch import FunctionWatch
from lightning_gpuprof.callbacks.watches.gradient_watch import GradientWatch

_HANDED_ON = {"aten.detach.default", "aten._to_copy.default"}
"""A gradient's or a loss's view: no work."""


class Convolves(Attending):
    """Has something for each of the watches."""

    def __init__(self):
        super().__init__()
        self.window = torch.nn.Conv1d(4, 4, 3)
        self.idle = torch.nn.Parameter(torch.ones(3))

    def inside(self, x):
        y = super().inside(self.window(x[None])[0].repeat(1, 2)[:, :32])
        apart = [self.attention.in_proj_weight[i] for i in range(8)]
        again = self.layer(x) + self.layer(x)
        return y.sum() + torch.stack(apart).sum() + again.sum() + self.idle.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.01)


class Counts(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counted = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counted[str(func)] += 1
        return func(*args, **(kwargs or {}))


class Counting(Callback):
    def __init__(self):
        self.mode = Counts()

    def on_train_start(self, *_):
        self.mode.__enter__()

    def on_train_end(self, *_):
        self.mode.__exit__(None, None, None)


def counted(watch, folder):
    """Trains under a mode that counts operators, and returns the counts."""
    torch.manual_seed(0)
    counting = Counting()
    trainer = Trainer(
        callbacks=[*watch, counting], max_epochs=1, logger=False, default_root_dir=folder
    )
    data = TensorDataset(torch.randn(48, 32), torch.randint(1, 9, (48, 20)))
    trainer.fit(Convolves(), DataLoader(data, batch_size=4))
    return {name: n for name, n in counting.mode.counted.items() if name not in _HANDED_ON}


@pytest.mark.parametrize(
    "watch", [BackendWatch, BatchWatch, CallWatch, DebugWatch, FunctionWatch, GradientWatch]
)
def test_a_mode_of_the_program_counts_nothing_of_a_watch(watch, tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    watching = watch(cores=lambda: 1) if watch is DebugWatch else watch()
    with torch.backends.mkldnn.flags(enabled=False):
        alone = counted([], tmp_path)
        assert counted([watching], tmp_path) == alone
