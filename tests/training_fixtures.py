"""Fixtures of the tests that train: each folder's conftest imports those it needs."""

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.records.reader import read_run


@pytest.fixture(autouse=True)
def plain_trainers(monkeypatch):
    """Defaults of every Trainer here: Lightning takes what is not passed from the environment."""
    for name in ("ENABLE_PROGRESS_BAR", "ENABLE_MODEL_SUMMARY", "ENABLE_CHECKPOINTING"):
        monkeypatch.setenv(f"PL_TRAINER_{name}", "False")
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "cpu")


@pytest.fixture
def session_of(tmp_path):
    """Train for an epoch without validation, and return the session that the run left."""

    def trained(model, *callbacks, data=None, **options):
        plain = {"max_epochs": 1, "limit_val_batches": 0, "logger": CSVLogger(tmp_path)}
        trainer = Trainer(callbacks=list(callbacks), **(plain | options))
        trainer.fit(model, data)
        return read_run(trainer.loggers[0].log_dir)[0].sessions[0]

    return trained
