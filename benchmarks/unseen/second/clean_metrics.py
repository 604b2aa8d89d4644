"""Crop diseases: a metric collection updated each batch and computed once an epoch, checkpoints.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

STEPS = 280
DISEASES = 12


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return (x + self.net(x)).relu()


class LeafModel(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 7, stride=4, padding=3),
            Residual(32),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            Residual(64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, DISEASES),
        )
        self.mean_loss = MeanMetric()
        self.val_accuracy = MulticlassAccuracy(DISEASES)

    def training_step(self, batch, batch_idx):
        leaves, diseases = batch
        loss = nn.functional.cross_entropy(self.net(leaves), diseases)
        self.mean_loss.update(loss.detach())
        return loss

    def on_train_epoch_end(self):
        self.log("train_loss", self.mean_loss.compute())
        self.mean_loss.reset()

    def validation_step(self, batch, batch_idx):
        leaves, diseases = batch
        self.val_accuracy.update(self.net(leaves), diseases)
        self.log("val_accuracy", self.val_accuracy, on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)]


def leaves(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, 3, 96, 96), torch.randint(DISEASES, (count,)))


def main(run: Run) -> None:
    training = DataLoader(leaves(1120), batch_size=16, shuffle=True)
    validation = DataLoader(leaves(64), batch_size=32)
    best = ModelCheckpoint(run.root / "best", monitor="val_accuracy", mode="max")
    callbacks = [best, LearningRateMonitor("epoch"), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(LeafModel(), training, validation)


if __name__ == "__main__":
    main(arguments(STEPS))
