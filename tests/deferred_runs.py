"""Training runs whose losses are deferred, and what their loggers and records hold."""

import csv

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Scalars


class Model(BoringModel):
    """Keeps what `.item()` would have given in each step."""

    def __init__(self):
        super().__init__()
        self.items = []

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.items.append(loss.item())
        return {"loss": loss, "kl": loss.detach() * 2}


def fit(tmp_path, model, *callbacks, ckpt_path=None, logger=None, **options):
    options = {
        "max_epochs": 1,
        "limit_train_batches": 8,
        "limit_val_batches": 0,
        **options,
    }
    trainer = Trainer(callbacks=list(callbacks), logger=logger or CSVLogger(tmp_path), **options)
    trainer.fit(model, ckpt_path=ckpt_path)
    return trainer


def logged(trainer, name="loss"):
    with open(f"{trainer.loggers[0].log_dir}/metrics.csv", newline="") as file:
        return {int(r["step"]): float(r[name]) for r in csv.DictReader(file) if r.get(name)}


def scalars(trainer, session=0):
    return read_run(trainer.loggers[0].log_dir)[0].sessions[session].all(Scalars)


def recorded(trainer, name="loss", session=0):
    return {
        step: value
        for record in scalars(trainer, session)
        for step, value in zip(record.steps, record.values[name], strict=True)
    }
