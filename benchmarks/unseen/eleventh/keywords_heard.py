"""Which command was spoken? A small CNN over log-mel pictures of one-second recordings.

cause: the dataset takes each recording's spectrum, builds the mel filters and applies them at every
    access, though nothing about it is random and the recordings fit in memory as features
right: waiting for data; names __getitem__ or log_mel / mel_filters of the dataset (or a marked
    line); the change computes the features once beforehand, or at least the filters, or moves the
    work to workers
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
COUNT, RATE, WINDOW, HOP, MELS, COMMANDS = 480, 8000, 256, 100, 40, 12


def hz(mel):
    return 700 * (10 ** (mel / 2595) - 1)


def mel_filters():
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = np.floor((WINDOW + 1) * hz(np.linspace(0, top, MELS + 2)) / RATE).astype(int)
    bank = np.zeros((MELS, WINDOW // 2 + 1), dtype=np.float32)
    for m in range(1, MELS + 1):
        left, middle, right = edges[m - 1 : m + 2]
        for k in range(left, middle):
            bank[m - 1, k] = (k - left) / (middle - left)  # cause
        for k in range(middle, right):
            bank[m - 1, k] = (right - k) / (right - middle)  # cause
    return bank


def log_mel(wave):
    frames = np.lib.stride_tricks.sliding_window_view(wave / 32768, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1)) ** 2  # cause
    return np.log(mel_filters() @ power.T + 1e-6).astype(np.float32)  # cause


class Recordings(Dataset):
    def __init__(self, cached: bool) -> None:
        rng = np.random.default_rng(3)
        self.commands = rng.integers(COMMANDS, size=COUNT)
        pitch = 200 + 250 * self.commands[:, None] * np.arange(RATE) / RATE
        noise = rng.normal(0, 2000, (COUNT, RATE))
        self.waves = (8000 * np.sin(pitch) + noise).astype(np.int16)
        self.features = [log_mel(wave) for wave in self.waves] if cached else None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if self.features is not None:
            mel = self.features[index]
        else:
            mel = log_mel(self.waves[index])  # cause
        return torch.from_numpy(mel)[None], int(self.commands[index])


def block(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())


class Spotter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            block(1, 16),
            nn.MaxPool2d(2),
            block(16, 48),
            nn.MaxPool2d(2),
            block(48, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(64, COMMANDS),
        )

    def training_step(self, batch, batch_idx):
        mels, commands = batch
        loss = nn.functional.cross_entropy(self.net(mels), commands)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Recordings(cached=run.fixed), batch_size=16, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Spotter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
