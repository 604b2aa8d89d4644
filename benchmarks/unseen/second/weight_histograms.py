"""Counting birds in drone images; all weights watched as histograms in TensorBoard.

cause: the histograms are written after every batch, where once an epoch is enough to see them move
accept: slow-callback slow-logging @line
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300


class WeightHistograms(L.Callback):
    def __init__(self, every_batch: bool) -> None:
        self.every_batch = every_batch

    def write(self, trainer, pl_module):
        for name, parameter in pl_module.named_parameters():  # cause
            trainer.logger.experiment.add_histogram(  # cause
                name,  # cause
                parameter,  # cause
                trainer.global_step,  # cause
            )

    def on_train_batch_end(self, trainer, pl_module, *_):
        if self.every_batch:
            self.write(trainer, pl_module)  # cause

    def on_train_epoch_end(self, trainer, pl_module):
        if not self.every_batch:
            self.write(trainer, pl_module)


class BirdCounter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def training_step(self, batch, batch_idx):
        images, birds = batch
        loss = nn.functional.poisson_nll_loss(self.net(images).squeeze(1), birds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    images = TensorDataset(torch.rand(1200, 3, 96, 96), torch.randint(9, (1200,)).float())
    data = DataLoader(images, batch_size=16, shuffle=True)
    callbacks = [WeightHistograms(every_batch=not run.fixed), *run.callbacks]
    logger = TensorBoardLogger(run.root)
    L.Trainer(callbacks=callbacks, logger=logger, **run.trainer).fit(BirdCounter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
