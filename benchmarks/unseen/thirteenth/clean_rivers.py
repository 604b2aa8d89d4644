"""How high will the river be? A GRU over gauges, with two workers that keep pace, clean."""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 320
GAUGES, HOURS, WINDOW, BATCH = 12, 6000, 72, 32


class Windows(Dataset):
    """Cuts windows of hours, and the level of the hour after, from the gauges' records."""

    def __init__(self, count) -> None:
        self.count = count
        hours = torch.arange(HOURS)[:, None]
        tides = torch.sin(hours / (10 + 20 * torch.rand(GAUGES)))
        self.levels = tides + 0.1 * torch.randn(HOURS, GAUGES)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        end = (index * 37) % (HOURS - WINDOW - 1) + WINDOW
        return self.levels[end - WINDOW : end], self.levels[end]


class Forecaster(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(GAUGES, 64, batch_first=True)
        self.out = nn.Linear(64, GAUGES)

    def forward(self, windows):
        return self.out(self.gru(windows)[0][:, -1])

    def training_step(self, batch, batch_idx):
        windows, levels = batch
        loss = nn.functional.mse_loss(self(windows), levels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        windows, levels = batch
        self.log("val_loss", nn.functional.mse_loss(self(windows), levels))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)


def loader(count, shuffle):
    return DataLoader(
        Windows(count),
        batch_size=BATCH,
        shuffle=shuffle,
        num_workers=2 if shuffle else 0,
        persistent_workers=shuffle,
    )


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Forecaster(), loader(160 * BATCH, True), loader(4 * BATCH, False))


if __name__ == "__main__":
    main(arguments(STEPS))
