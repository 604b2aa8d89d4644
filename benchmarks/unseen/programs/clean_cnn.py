"""A CNN on images in memory, a scheduler, early stopping and a checkpoint."""

import torch
from case import Run, Validated, convs, shuffled
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from torch import nn

STEPS = 282  # three epochs


class Images(Validated):
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)]


def main(run: Run) -> None:
    images, labels = torch.rand(4500, 3, 32, 32), torch.randint(10, (4500,))
    net = convs((3, 24, 3, 2), (24, 48, 3, 1), (48, 64, 3, 2), norm=True)
    kept = ModelCheckpoint(run.root / "checkpoints", monitor="val_loss")
    callbacks = [EarlyStopping("val_loss", patience=50), kept, LearningRateMonitor()]
    loaders = shuffled(48, images, labels), shuffled(96, images[:192], labels[:192])
    run.fit(Images(net, nn.Linear(64, 10)), *loaders, callbacks=callbacks)
