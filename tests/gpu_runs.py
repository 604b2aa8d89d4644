"""Fits on one CUDA or ROCm device, for the tests that need one."""

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger

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
