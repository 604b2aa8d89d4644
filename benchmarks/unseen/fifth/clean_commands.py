"""Spoken commands: spectra of whole batches inside the module, the window in a buffer.

accept: none
"""

import lightning as L
import torch
import torchmetrics
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 150
SAMPLES, COMMANDS = 8000, 12


class Commands(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.net = nn.Sequential(
            nn.BatchNorm2d(1),
            nn.Conv2d(1, 24, 5, stride=2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(48, COMMANDS),
        )
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(COMMANDS)

    def training_step(self, batch, batch_idx):
        sound, command = batch
        spectra = torch.stft(sound, 400, 160, window=self.window, return_complex=True)
        scores = self.net(spectra.abs().square().add(1e-6).log()[:, None])
        loss = nn.functional.cross_entropy(scores, command)
        self.accuracy.update(scores, command)
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        self.log("train_accuracy", self.accuracy.compute())
        self.accuracy.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    sounds = TensorDataset(torch.randn(1500, SAMPLES), torch.randint(COMMANDS, (1500,)))
    data = DataLoader(sounds, batch_size=10, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Commands(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
