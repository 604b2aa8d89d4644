"""A small program to be trained with and without the callback, and what is around it."""

import gc
import hashlib
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.runtime.marker import FILE_NAME

STEPS = 8
WINDOW = (2, 3)
"""Steps that torch.profiler records; step 1 is its warm-up."""
HOOKS = (
    "setup", "teardown", "prepare_data", "configure_model", "on_fit_start", "on_fit_end",
    "on_train_start", "on_train_end", "on_train_epoch_start", "on_train_epoch_end",
    "on_validation_start", "on_validation_end", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_before_zero_grad", "on_save_checkpoint", "on_exception",
)  # fmt: skip


@dataclass
class Case:
    """A fault: what it changes in a run, and what it may cost of ours."""

    plant: Callable[["Run"], object]
    fast: bool = False
    off: frozenset[str] | None = frozenset()
    """The parts that it switches off, as in the records; None where that depends."""
    says: str | None = None
    """The one warning that is shown matches this."""
    records: bool | None = None
    """Whether steps are recorded, where that is known."""
    loose: bool = False
    """How it ends depends on the moment: only that it ends so, and leaves nothing, is compared."""


CASES: dict[str, Case] = {}


def row(
    name,
    plant=None,
    *,
    plan=(),
    fast=False,
    off=(),
    says=None,
    records=None,
    loose=False,
    **changes,
):
    """Add a case: `changes` of a run, what its hooks do (`plan`), and a function of the run."""

    def planted(run):
        run.model.plan |= dict(plan)
        for key, value in changes.items():
            before = getattr(run, key)
            setattr(run, key, before | value if isinstance(value, dict) else value)
        return plant and plant(run)

    assert name not in CASES
    CASES[name] = Case(planted, fast, off if off is None else frozenset(off), says, records, loose)


def put(owner, name, value):
    """Return a function of a run that replaces an attribute."""
    return lambda run: setattr(owner, name, value)


def chosen(everything):
    """Return the names of the cases to run."""
    return [name for name, case in CASES.items() if everything or case.fast]


def slug(name):
    """Return a case's name as one of a folder."""
    return re.sub(r"\W+", "-", name)


def raises(error):
    """Return a function of anything that raises an error."""

    def fail(*args, **kwargs):
        raise error

    return fail


class Rows(Dataset):
    """Draws from three streams of random numbers; `at` is called with each index."""

    at = None

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if self.at is not None:
            self.at(index)
        return torch.randn(8) + random.random() + float(np.random.rand())


class Model(LightningModule):
    """Does in its hooks what its plan says, by `hook` or `hook batch`; notes its state."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2)
        )
        self.plan, self.seen, self.number = {}, [], 0

    def do(self, hook):
        for key in (hook, f"{hook} {self.number}"):
            if key in self.plan:
                return self.plan[key](self)
        return None

    def training_step(self, batch, batch_idx):
        loss = self.layers(batch).square().mean()
        self.log("train_loss", loss)
        found = self.do("training_step")
        return loss if found is None else found

    def validation_step(self, batch, batch_idx):
        self.do("validation_step")
        self.log("val_loss", self.layers(batch).mean())

    def configure_optimizers(self):
        self.do("configure_optimizers")
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def on_train_batch_start(self, batch, batch_idx):
        self.number = batch_idx
        self.note()
        return self.do("on_train_batch_start")

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.note()
        self.do("on_train_batch_end")

    def note(self):
        """Keep a digest of weights, optimizer state and random numbers."""
        found = hashlib.blake2b(digest_size=8)
        states = [state for one in self.trainer.optimizers for state in one.state.values()]
        tensors = [tensor for state in states for tensor in state.values()]
        for one in (*self.parameters(), *tensors, torch.get_rng_state()):
            found.update(one.detach().numpy().tobytes())
        found.update(repr(random.getstate()).encode())
        found.update(np.random.get_state()[1].tobytes())
        self.seen.append(found.hexdigest())


def _hook(name):
    return lambda self, *args, **kwargs: self.do(name)


for _name in HOOKS:
    setattr(Model, _name, _hook(_name))


@dataclass
class Run:
    """One run of a program, before and while it trains."""

    folder: str
    ours: bool
    model: Model = field(default_factory=Model)
    data: Rows = field(default_factory=Rows)
    loader: dict = field(default_factory=dict)
    callbacks: list = field(default_factory=list)
    last: bool = False
    """Our callback comes after the others."""
    options: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)
    trainer: Trainer | None = None

    def make(self):
        callbacks = list(self.callbacks)
        if self.ours:
            window = {"wait": 1, "warmup": 1, "active": 2, "repeat": 0}
            settings = window | {"window": 3, "report": False, "console": False}
            callback = GpuProfCallback(**(settings | self.settings))
            callbacks.insert(len(callbacks) if self.last else 0, callback)
        options = {
            "logger": CSVLogger(self.folder), "default_root_dir": self.folder,
            "max_epochs": 1, "limit_val_batches": 1, "log_every_n_steps": 2, "accelerator": "cpu",
            "enable_progress_bar": False, "enable_model_summary": False,
        }  # fmt: skip
        self.trainer = Trainer(callbacks=callbacks, **(options | self.options))
        return self.trainer

    def fit(self):
        trainer = self.trainer or self.make()
        rows = DataLoader(self.data, batch_size=1, **self.loader)
        trainer.fit(self.model, rows, DataLoader(self.data, batch_size=1))


def around():
    """Return what a fit must leave as it was, by name."""
    opened = (os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd"))
    return {
        "threads": sorted({one.name for one in threading.enumerate()} - {"QueueFeederThread"}),
        "processes": len(multiprocessing.active_children()),
        "gc.callbacks": [getattr(one, "__qualname__", repr(one)) for one in gc.callbacks],
        "gc": (gc.isenabled(), gc.get_threshold()),
        "switch interval": sys.getswitchinterval(),
        "signals": {one: str(signal.getsignal(one)) for one in signal.valid_signals()},
        "filters": len(warnings.filters),
        "hooks": str((sys.excepthook, threading.excepthook, sys.gettrace(), sys.getprofile())),
        "environment": dict(os.environ),
        "prepare": str(torch.autograd.profiler._prepare_profiler),
        "recording": torch._C._autograd._profiler_enabled(),
        "autograd": (torch.is_grad_enabled(), torch.is_anomaly_enabled()),
        "open files": sum("gpuprof" in path for path in opened),
    }


def left_in(run):
    """Return the attributes of a run's objects that are ours."""
    trainer = run.trainer
    if trainer is None:
        return []
    loop = trainer.fit_loop
    owners = [trainer, loop, loop.epoch_loop, loop.epoch_loop.val_loop, trainer.strategy]
    owners += [loop.epoch_loop._results, run.model, run.data, *trainer.loggers]
    owners += [trainer.train_dataloader] if trainer.train_dataloader is not None else []
    owners += [getattr(one, "_experiment", None) for one in trainer.loggers]
    found = {
        f"{type(owner).__name__}.{name}"
        for owner in owners
        for name, value in getattr(owner, "__dict__", {}).items()
        if type(value).__module__.startswith("lightning_gpuprof")
    }
    return sorted(found)


OF_LOGGERS = (FILE_NAME, "metrics.csv")
"""Our marker, and what begins with the first value, which may be ours."""


def files(folder):
    """Return the program's own files, and those of ours that no one would miss."""
    own, ours = [], []
    for path in sorted(Path(folder).rglob("*")) + sorted(Path(tempfile.gettempdir()).rglob("*")):
        name = str(path.relative_to(Path(folder).parent)).partition(os.sep)[2]
        if path.name.endswith((".part", ".tmp")) or "gpuprof-workers" in path.name:
            ours.append(name)
        elif path.is_file() and "plugins" not in path.parts and path.name not in OF_LOGGERS:
            own.append(name)
    return own, ours
