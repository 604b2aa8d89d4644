"""A CNN with BatchNorm on images in memory, a scheduler, early stopping and a checkpoint.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 282  # three epochs


class Images(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True),
            nn.Conv2d(24, 48, 3, 1, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU(inplace=True),
            nn.Conv2d(48, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)]


def main(run: Run) -> None:
    images, labels = torch.rand(4500, 3, 32, 32), torch.randint(10, (4500,))
    train = DataLoader(TensorDataset(images, labels), batch_size=48, shuffle=True)
    val = DataLoader(TensorDataset(images[:192], labels[:192]), batch_size=96)
    callbacks = [
        EarlyStopping("val_loss", patience=50),
        ModelCheckpoint(run.root / "checkpoints", monitor="val_loss"),
        LearningRateMonitor(),
    ]
    L.Trainer(callbacks=[*callbacks, *run.callbacks], **run.trainer).fit(Images(), train, val)


if __name__ == "__main__":
    main(arguments(STEPS))
