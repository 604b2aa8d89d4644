"""Training runs on a fake clock, with delays planted where the tests say.

`plant(phase, part)` moves the clock and writes down where that time belongs: a test then asks
that what was measured is exactly what was planted.
"""

from collections import Counter

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch.utils.data import DataLoader, Dataset, IterableDataset

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import OutsideSpan

SAMPLES = 12
BATCH = 2
STEPS = SAMPLES // BATCH


class FakeClock:
    """Stands still but for what is planted; every delay is different."""

    def __init__(self):
        self.now_ns = 1_000_000
        self.planted = Counter()
        self.off = set()

    def __call__(self):
        return self.now_ns

    def plant(self, phase, part=None):
        if part in self.off or phase in self.off:
            return
        delay = 1_000 * (len(self.planted) + 1) + 7
        self.now_ns += delay
        self.planted[phase.value, part] += delay

    def __deepcopy__(self, memo):
        return self


class Data(Dataset):
    def __init__(self, clock, phase=Phase.DATA_WAIT, length=SAMPLES):
        self.clock, self.phase, self.length = clock, phase, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.clock.plant(self.phase, "fetch")
        return torch.full((32,), float(index))


class Stream(IterableDataset):
    def __init__(self, clock):
        self.data = Data(clock)

    def __iter__(self):
        for index in range(SAMPLES):
            yield self.data[index]


class Model(LightningModule):
    """A linear layer with a delay in each of its hooks."""

    def __init__(self, clock):
        super().__init__()
        self.layer = torch.nn.Linear(32, 2)
        self.clock = clock

    def plant(self, phase, part=None):
        self.clock.plant(Phase.VALIDATION if self.trainer.validating else phase, part)

    def loader(self, data, phase=Phase.DATA_WAIT, **options):
        def collate(samples):
            self.clock.plant(phase, "collate")
            return torch.stack(samples)

        return DataLoader(data, batch_size=BATCH, collate_fn=collate, **options)

    def train_dataloader(self):
        return self.loader(Data(self.clock))

    def val_dataloader(self):
        return self.loader(Data(self.clock, Phase.VALIDATION, 4), Phase.VALIDATION)

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        in_fit = self.trainer.state.fn == "fit" and not self.trainer.training
        self.clock.plant(Phase.VALIDATION if in_fit else Phase.HOST_TO_DEVICE, "transfer")
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def loss(self, batch):
        return self.layer(batch).pow(2).mean() * 1e-4

    def training_step(self, batch, batch_idx):
        self.clock.plant(Phase.FORWARD)
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        fitting = self.trainer.state.fn == "fit"
        self.clock.plant(Phase.VALIDATION if fitting else Phase.FORWARD, "validation_step")
        self.log("val_loss", self.loss(batch))

    def test_step(self, batch, batch_idx):
        self.clock.plant(Phase.FORWARD)

    def predict_step(self, batch, batch_idx):
        self.clock.plant(Phase.FORWARD)
        return self.layer(batch)

    def backward(self, loss, *args, **kwargs):
        self.clock.plant(Phase.BACKWARD)
        loss.backward(*args, **kwargs)

    def configure_gradient_clipping(self, *args, **kwargs):
        self.clock.plant(Phase.CLIP_GRADIENTS)

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        self.clock.plant(Phase.ZERO_GRAD)
        optimizer.zero_grad()

    def configure_optimizers(self):
        return Slow(self.clock, self.parameters())


class Slow(torch.optim.SGD):
    """Its own arithmetic is slow, not the closure that it calls."""

    def __init__(self, clock, parameters):
        super().__init__(parameters, lr=0.1)
        self.clock = clock

    def step(self, closure=None):
        loss = None if closure is None else closure()
        self.clock.plant(Phase.OPTIMIZER_STEP)
        super().step()
        return loss


class SlowCallback(Callback):
    def __init__(self, clock):
        self.clock = clock

    def on_train_batch_end(self, *args):
        self.clock.plant(Phase.CALLBACKS, "SlowCallback")

    on_after_backward = on_train_epoch_end = on_validation_end = on_train_batch_end


class SlowLogger(Logger):
    name, version = "slow", 0

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def log_metrics(self, metrics, step=None):
        if not any(name.startswith("gpuprof/") for name in metrics):
            self.clock.plant(Phase.LOGGING, "SlowLogger")

    def log_hyperparams(self, *args, **kwargs):
        pass


class SlowDisk(TorchCheckpointIO):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def save_checkpoint(self, *args, **kwargs):
        self.clock.plant(Phase.CHECKPOINT, "ModelCheckpoint")
        super().save_checkpoint(*args, **kwargs)


class Measured:
    """What a session's records say."""

    def __init__(self, session):
        self.session = session
        self.columns = session.columns
        self.steps = session.steps
        self.outside = session.all(OutsideSpan)
        self.end = session.end

    def phase_ns(self):
        """Sums by phase, over steps and outside spans."""
        sums = Counter()
        for name, values in self.columns.items():
            if name.startswith("phase/"):
                sums[name.removeprefix("phase/")] += int(values.sum())
        for span in self.outside:
            sums.update(span.phase_ns)
        return {name: value for name, value in sums.items() if value}

    def part_ns(self, name):
        """The sum of one `<phase>/<name>`."""
        steps = self.columns.get(f"part/{name}")
        inside = 0 if steps is None else int(steps.sum())
        return inside + sum(span.part_ns.get(name, 0) for span in self.outside)

    def check_sums(self):
        """Every nanosecond is in exactly one phase of exactly one step or outside span."""
        per_step = sum(v for k, v in self.columns.items() if k.startswith("phase/"))
        if self.steps:
            assert (per_step == self.columns["dur_ns"]).all()
        for span in self.outside:
            assert sum(span.phase_ns.values()) == span.dur_ns
        steps_ns = int(self.columns["dur_ns"].sum()) if self.steps else 0
        assert steps_ns + sum(span.dur_ns for span in self.outside) == self.end.wall_ns


def fit(callback, clock, tmp_path, *, model=None, call=Trainer.fit, call_options=None, **options):
    """Train with every delay planted; returns the Trainer."""
    trainer = make_trainer(callback, clock, tmp_path, **options)
    call(trainer, model or Model(clock), **(call_options or {}))
    return trainer


def make_trainer(callback, clock, tmp_path, *, callbacks=(), **options):
    checkpoint = ModelCheckpoint(tmp_path / "checkpoints", every_n_train_steps=3, save_top_k=-1)
    plain = options.get("barebones") or options.get("fast_dev_run")
    defaults = {"max_epochs": 1, "default_root_dir": tmp_path}
    if not options.get("barebones"):
        defaults |= {
            "log_every_n_steps": 2,
            "logger": SlowLogger(clock),
            "plugins": [SlowDisk(clock)],
            "enable_checkpointing": not plain,
        }
    extra = [] if plain else [checkpoint]
    everything = [SlowCallback(clock), callback, *callbacks, *extra]
    return Trainer(callbacks=everything, **(defaults | options))


def sessions(callback):
    """Return what was measured in each session of a callback's run."""
    run = read_run(callback._context.run_dir)
    return [Measured(session) for session in run[0].sessions]


def planted_by_phase(clock):
    """Return the planted time by phase."""
    sums = Counter()
    for (phase, _), delay in clock.planted.items():
        sums[phase] += delay
    return dict(sums)
