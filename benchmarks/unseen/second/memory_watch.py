"""Anomaly detection in machine sounds, with an eye on memory after a leak last week.

cause: each batch reads the process's unique memory, for which the kernel walks all of its mappings
accept: slow-callback @line
"""

import lightning as L
import psutil
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400


class MemoryWatch(L.Callback):
    """Logs the memory of this process."""

    def __init__(self, cheap: bool) -> None:
        self.cheap = cheap
        self.process = psutil.Process()

    def used(self) -> int:
        if self.cheap:
            return self.process.memory_info().rss
        return self.process.memory_full_info().uss  # cause

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pl_module.log("memory_mb", self.used() / 2**20)  # cause


class SoundAutoencoder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(64, 96, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(96, 32, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.ConvTranspose1d(32, 96, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(96, 64, 4, stride=2, padding=1),
        )

    def training_step(self, batch, batch_idx):
        (sound,) = batch
        loss = nn.functional.mse_loss(self.net(sound), sound)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    sounds = TensorDataset(torch.randn(1600, 64, 128))
    data = DataLoader(sounds, batch_size=16, shuffle=True)
    callbacks = [MemoryWatch(cheap=run.fixed), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(SoundAutoencoder(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
