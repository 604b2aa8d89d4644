"""Crop diseases: metrics updated each batch and computed once an epoch, checkpoints."""

import torch
from case import Run, Supervised, convs, shuffled
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch import nn
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

STEPS, DISEASES = 280, 12


class LeafModel(Supervised):
    def __init__(self, *net):
        super().__init__(*net)
        self.mean_loss, self.accuracy = MeanMetric(), MulticlassAccuracy(DISEASES)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.mean_loss.update(loss.detach())
        return loss

    def on_train_epoch_end(self):
        self.log("train_loss", self.mean_loss.compute())
        self.mean_loss.reset()

    def validation_step(self, batch, batch_idx):
        self.accuracy.update(self.net(batch[0]), batch[1])
        self.log("val_accuracy", self.accuracy, on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)]


def leaves(count):
    return torch.randn(count, 3, 96, 96), torch.randint(DISEASES, (count,))


def main(run: Run) -> None:
    net = convs((3, 32, 7, 4), (32, 32, 3, 1), (32, 64, 3, 2), (64, 64, 3, 1), norm=True)
    best = ModelCheckpoint(run.root / "best", monitor="val_accuracy", mode="max")
    loaders = shuffled(16, *leaves(1120)), shuffled(32, *leaves(64))
    callbacks = [best, LearningRateMonitor("epoch")]
    run.fit(LeafModel(net, nn.Linear(64, DISEASES)), *loaders, callbacks=callbacks)
