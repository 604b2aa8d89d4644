"""Fits on one CUDA or ROCm device, for the tests that need one."""

import json

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.profiler import ProfilerActivity, profile

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.records.reader import read_run

ON_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device"),
]


def fit(folder, model, *callbacks, **options):
    """Train an epoch of at most 60 batches, and return the Trainer."""
    defaults = {
        "max_epochs": 1,
        "accelerator": "gpu",
        "devices": 1,
        "limit_train_batches": 60,
        "limit_val_batches": 2,
        "logger": CSVLogger(folder),
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "callbacks": list(callbacks),
    }
    trainer = Trainer(**(defaults | options))
    trainer.fit(model)
    return trainer


def session(trainer):
    """Return what a Trainer's first fit recorded."""
    return read_run(trainer.logger.log_dir)[0].sessions[0]


def whole(**options):
    """Return the callback as it is, but for a profiler's window and its report."""
    return GpuProfCallback(report=False, console=False, trace=False, **options)


class Trace(Callback):
    """Records the steps from `first` to `last`, beginning and ending with an idle device."""

    def __init__(self, path, first, last):
        self.path, self.first, self.last = path, first, last

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx == self.first:
            torch.cuda.synchronize()
            self.profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
            self.profile.start()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx == self.last:
            torch.cuda.synchronize()
            self.profile.stop()
            self.profile.export_chrome_trace(str(self.path))

    def events(self):
        return json.loads(self.path.read_text())["traceEvents"]
