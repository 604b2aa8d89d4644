"""The looks at the first batches on a device whose values nobody can have: torch's meta device.

To read one there (`item`, `nonzero`, a copy to the host) is an error, where on a GPU it would make
the host wait for the device.
"""

import gc
from functools import partial

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import cross_entropy, one_hot
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.watches import gradient_watch
from lightning_gpuprof.callbacks.watches.batch_watch import BatchWatch
from lightning_gpuprof.callbacks.watches.call_watch import CallWatch
from lightning_gpuprof.callbacks.watches.checkpoint_watch import CheckpointWatch
from lightning_gpuprof.callbacks.watches.debug_watch import DebugWatch
from lightning_gpuprof.callbacks.watches.function_watch import FunctionWatch
from lightning_gpuprof.callbacks.watches.gc_watch import GcWatch
from lightning_gpuprof.callbacks.watches.gradient_watch import GradientWatch
from lightning_gpuprof.callbacks.watches.graph_watch import GraphWatch
from lightning_gpuprof.probes.looks.gradient_use import ValueChanges
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, ProbeDisabled

META = torch.device("meta")
BATCHES = 12


class Accelerator(CPUAccelerator):
    def setup_device(self, device):
        """Take a device that is no CPU."""


class Strategy(SingleDeviceStrategy):
    def __init__(self):
        super().__init__(META, accelerator=Accelerator())

    def reduce(self, tensor, *_, **__):
        """Tell of the loader that it holds something: that is what is reduced here."""
        return torch.ones(())

    def teardown(self):
        """Leave the model where it is: there are no values to bring back."""


class Model(LightningModule):
    """Has something for each look to find."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 32)
        self.encoder = torch.nn.Linear(32, 32)
        self.attention = torch.nn.MultiheadAttention(32, 4)
        self.teacher = torch.nn.Linear(32, 32)
        self.head = torch.nn.Linear(32, 300)
        self.kinds = torch.nn.Linear(50, 32)

    def training_step(self, batch, batch_idx):
        x = self.table(batch) + self.kinds(one_hot(batch, 50).float())
        x = x + torch.arange(batch.shape[1], device=batch.device).float()[:, None].sin().sum()
        x, _ = self.attention(x, x, x)
        twice = self.encoder(x) - self.encoder(x)
        penalty = sum(one.square().sum() for one in self.parameters())
        scores = cross_entropy(self.head(x).flatten(0, 1), batch.flatten())
        return (twice + self.teacher(x)).square().mean() + 1e-4 * penalty + scores

    def configure_optimizers(self):
        own = [one for name, one in self.named_parameters() if "teacher" not in name]
        return torch.optim.SGD(own, lr=0.1)


class Later:
    """A copy that arrives when somebody waits for it; its values are none."""

    copies = 0

    def __init__(self, values):
        assert values.device == META
        Later.copies += 1
        self._host = torch.zeros(values.shape, dtype=values.dtype)

    def ready(self):
        return False

    def result(self):
        return self._host


class Keeping(Callback):
    """Looks at what is kept of a batch that two later ones have followed."""

    def __init__(self):
        self.begun, self.made, self.kept = 0, [[]], []

    def on_train_start(self, trainer, pl_module):
        self.handle = register_module_forward_hook(self.see)

    def see(self, module, given, output):
        # A storage, for a graph may keep that when its tensor is gone.
        tensors = [one for one in (*given, output) if isinstance(one, torch.Tensor)]
        self.made[-1] += [StorageWeakRef(one.untyped_storage()) for one in tensors]

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.made.append([])
        if len(self.made) > 3:
            gc.collect()
            self.kept += [one for one in self.made[-3] if not one.expired()]

    def on_train_end(self, trainer, pl_module):
        self.handle.remove()


def looks():
    return [
        PhaseTimer(),
        BatchWatch(transfer=Later),
        CallWatch(transfer=Later),
        CheckpointWatch(),
        DebugWatch(),
        FunctionWatch(),
        GcWatch(),
        GradientWatch(),
        GraphWatch(every=2),
    ]


@pytest.fixture
def fit(tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_watch, "ValueChanges", partial(ValueChanges, transfer=Later))
    monkeypatch.setattr(Later, "copies", 0)
    monkeypatch.delenv("PL_TRAINER_ACCELERATOR")  # the strategy has its own

    def fitted(*callbacks):
        trainer = Trainer(
            callbacks=list(callbacks),
            logger=CSVLogger(tmp_path),
            strategy=Strategy(),
            max_epochs=1,
        )
        samples = [torch.arange(40) % 30] * (2 * BATCHES)
        trainer.fit(Model(), DataLoader(samples, batch_size=2))
        return read_run(trainer.logger.log_dir)[0].sessions[0]

    return fitted


def test_no_look_reads_a_value_of_the_device(fit):
    session = fit(*looks())
    assert session.all(ProbeDisabled) == []
    assert session.steps == BATCHES
    # They looked: each of these has queued its one copy, and has noted what it saw.
    assert Later.copies == 3
    (functions,) = (one.value for one in session.all(Note) if one.name == FUNCTIONS_NOTE)
    assert functions["unread"]["weight_bytes"] > 0


def test_a_value_that_is_read_would_be_noticed(fit):
    class Reads(Callback):
        read = False

        def on_train_batch_end(self, trainer, pl_module, outputs, *_):
            self.read = True
            outputs["loss"].item()

    reads = Reads()
    with pytest.raises(RuntimeError, match="meta"):
        fit(reads)
    assert reads.read


def test_no_look_keeps_a_batch_or_what_was_made_of_it(fit):
    keeping = Keeping()
    fit(*looks(), keeping)
    assert sum(map(len, keeping.made)) > BATCHES
    assert keeping.kept == []


def test_a_look_that_keeps_would_be_noticed(fit):
    class Keeps(Callback):
        kept = ()

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.kept = (*self.kept, batch)

    keeping = Keeping()
    fit(PhaseTimer(), Keeps(), keeping)
    assert keeping.kept
