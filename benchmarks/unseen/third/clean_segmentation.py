"""Roofs for solar panels: a U-shaped network, flips on the batch, overlap once a validation.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 240
SIZE = 48


def conv(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
    )


class Roofs(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.high = nn.Sequential(conv(3, 16), conv(16, 16))
        self.low = nn.Sequential(nn.MaxPool2d(2), conv(16, 32), conv(32, 32))
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.out = nn.Sequential(conv(32, 16), nn.Conv2d(16, 1, 1))
        self.register_buffer("both", torch.zeros(()), persistent=False)
        self.register_buffer("either", torch.zeros(()), persistent=False)

    def forward(self, images):
        high = self.high(images)
        return self.out(torch.cat([high, self.up(self.low(high))], dim=1)).squeeze(1)

    def training_step(self, batch, batch_idx):
        images, roofs = batch
        if torch.rand(()) < 0.5:
            images, roofs = images.flip(-1), roofs.flip(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(self(images), roofs)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, roofs = batch
        found, there = self(images) > 0, roofs > 0.5
        self.both += (found & there).sum()
        self.either += (found | there).sum()

    def on_validation_epoch_end(self):
        self.log("overlap", self.both / self.either.clamp_min(1))
        self.both.zero_()
        self.either.zero_()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def tiles(count: int) -> TensorDataset:
    return TensorDataset(
        torch.rand(count, 3, SIZE, SIZE), torch.randint(2, (count, SIZE, SIZE)).float()
    )


def main(run: Run) -> None:
    best = ModelCheckpoint(run.root / "best", monitor="overlap", mode="max")
    trainer = L.Trainer(callbacks=[best, *run.callbacks], **run.trainer)
    trainer.fit(
        Roofs(),
        DataLoader(tiles(960), batch_size=8, shuffle=True),
        DataLoader(tiles(64), batch_size=32),
    )


if __name__ == "__main__":
    main(arguments(STEPS))
