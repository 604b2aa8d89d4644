"""Fits under `ProfilerSchedule`, and what they leave."""

import gzip
import json
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, ProbeDisabled, ProfilerCycle


def fit(tmp_path, *callbacks, model=None, train=None, **options):
    options = {
        "max_epochs": 1,
        "limit_train_batches": 12,
        "limit_val_batches": 0,
        "logger": CSVLogger(tmp_path),
        **options,
    }
    trainer = Trainer(callbacks=list(callbacks), **options)
    trainer.fit(model or BoringModel(), train_dataloaders=train)
    return trainer


class Run:
    """What a fit left behind."""

    def __init__(self, trainer_or_logger):
        logger = getattr(trainer_or_logger, "logger", trainer_or_logger)
        self.folder = Path(logger.log_dir) / "plugins" / "gpuprof"
        self.session = read_run(logger.log_dir)[0].sessions[-1]
        self.cycles = self.session.all(ProfilerCycle)
        self.notes = {note.name: note for note in self.session.all(Note)}
        self.disabled = self.session.all(ProbeDisabled)

    def trace(self, cycle=0):
        path = self.folder / self.cycles[cycle].trace_file
        return Trace(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"])

    @property
    def files(self):
        return sorted(path.name for path in self.folder.iterdir() if "rank0-" in path.name)


class Trace:
    def __init__(self, events):
        self.events = [event for event in events if event.get("ph") == "X"]
        self.steps = sorted(
            (e for e in self.events if e["name"].startswith("ProfilerStep#")),
            key=lambda e: e["ts"],
        )

    @property
    def numbers(self):
        return [int(step["name"].partition("#")[2]) for step in self.steps]

    def inside(self, step):
        end = step["ts"] + step["dur"]
        return [e for e in self.events if step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end]


class Marked(BoringModel):
    """Says in the trace which step each of its parts belongs to, by the batch's number."""

    def __init__(self):
        super().__init__()
        self.number = None

    def train_dataloader(self):
        return DataLoader(Numbered(), batch_size=1)

    def training_step(self, batch, batch_idx):
        self.number = int(batch[0, 0])
        with torch.profiler.record_function(f"part:forward:{self.number}"):
            return super().training_step(batch, batch_idx)

    def backward(self, loss):
        with torch.profiler.record_function(f"part:backward:{self.number}"):
            super().backward(loss)

    def optimizer_step(self, *args, **kwargs):
        super().optimizer_step(*args, **kwargs)
        with torch.profiler.record_function(f"part:optimizer:{self.number}"):
            pass

    def on_validation_start(self):
        with torch.profiler.record_function(f"part:validation:{self.number}"):
            pass


class Numbered(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        with torch.profiler.record_function(f"part:fetch:{index}"):
            return torch.full((32,), float(index))
