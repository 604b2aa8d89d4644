"""Which bird sings? Log-mel pictures made beforehand, masked at random, one epoch after another.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
SONGS, MELS, FRAMES, BIRDS = 1600, 40, 64, 20


class Songs(L.LightningDataModule):
    def setup(self, stage):
        birds = torch.randint(BIRDS, (SONGS,))
        pitch = torch.arange(MELS)[:, None] - 2 * birds[:, None, None]
        mels = torch.exp(-pitch.square() / 8) + 0.3 * torch.randn(SONGS, MELS, FRAMES)
        self.train = TensorDataset(mels[:-160], birds[:-160])
        self.held_out = TensorDataset(mels[-160:], birds[-160:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=16, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.held_out, batch_size=80)


def block(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)
    )


class Birds(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            block(1, 24),
            block(24, 48),
            block(48, 96),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(96, BIRDS),
        )

    def training_step(self, batch, batch_idx):
        mels, birds = batch
        band = int(torch.randint(MELS - 6, ()))
        mels[:, band : band + 6] = 0
        loss = nn.functional.cross_entropy(self.net(mels[:, None]), birds, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        mels, birds = batch
        right = (self.net(mels[:, None]).argmax(1) == birds).float().mean()
        self.log("val_accuracy", right, batch_size=len(birds))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS + 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}


def main(run: Run) -> None:
    save = ModelCheckpoint(dirpath=run.root / "birds", monitor="val_accuracy", mode="max")
    callbacks = [save, LearningRateMonitor(), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Birds(), datamodule=Songs())


if __name__ == "__main__":
    main(arguments(STEPS))
