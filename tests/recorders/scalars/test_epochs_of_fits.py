import csv

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss


class Gives(BoringModel):
    """Its loss is as planted; where that is None it fails."""

    def __init__(self, *losses):
        super().__init__()
        self.losses = losses

    def training_step(self, batch, batch_idx):
        value = self.losses[batch_idx]
        if value is None:
            raise ValueError("planted")
        return 0.0 * self.layer(batch).sum() + torch.tensor(value)


def test_the_mean_of_an_epoch_holds_nothing_of_a_fit_that_failed(tmp_path):
    deferred = DeferredLoss()

    def fit(*losses):
        logger = CSVLogger(tmp_path)
        options = {"max_epochs": 1, "limit_train_batches": 3, "limit_val_batches": 0}
        Trainer(logger=logger, callbacks=[deferred], **options).fit(Gives(*losses))
        with open(f"{logger.log_dir}/metrics.csv", newline="") as file:
            return [float(row["loss_epoch"]) for row in csv.DictReader(file) if row["loss_epoch"]]

    with pytest.raises(ValueError, match="planted"):
        fit(100.0, 100.0, None)
    assert fit(1.0, 2.0, 3.0) == [2.0]
