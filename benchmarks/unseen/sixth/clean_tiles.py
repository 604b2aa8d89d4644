"""What grows on the field? Satellite tiles kept in bytes, flipped and scaled as whole batches.

accept: none
"""

import lightning as L
import torch
import torchmetrics
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
TILES, BANDS, SIDE, CROPS = 800, 6, 64, 10


class Fields(L.LightningDataModule):
    def setup(self, stage):
        tiles = torch.randint(256, (TILES, BANDS, SIDE, SIDE), dtype=torch.uint8)
        crops = torch.randint(CROPS, (TILES,))
        self.train = TensorDataset(tiles[:-160], crops[:-160])
        self.held_out = TensorDataset(tiles[-160:], crops[-160:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=16, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.held_out, batch_size=80)


def layer(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, stride=2, padding=1), nn.BatchNorm2d(out), nn.ReLU()
    )


class Crop(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            layer(BANDS, 24),
            layer(24, 48),
            layer(48, 96),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(96, CROPS),
        )
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(CROPS)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        tiles, crops = batch
        tiles = tiles.float() / 127.5 - 1
        if self.trainer.training and torch.rand(()) < 0.5:
            tiles = tiles.flip(3)
        return tiles, crops

    def training_step(self, batch, batch_idx):
        tiles, crops = batch
        loss = nn.functional.cross_entropy(self.net(tiles), crops)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        tiles, crops = batch
        self.accuracy.update(self.net(tiles), crops)
        self.log("val_accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, fused=True)


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Crop(), datamodule=Fields())


if __name__ == "__main__":
    main(arguments(STEPS))
