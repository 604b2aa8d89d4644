"""Hourly load of a power grid, forecast by a dilated convolution.

cause: every window scales the whole series, mean and deviation included, before it is cut out
accept: data-wait @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 500
PAST, AHEAD = 168, 24


def standardized(series: np.ndarray) -> np.ndarray:
    return (series - series.mean()) / (series.std() + 1e-6)  # cause


class LoadWindows(Dataset):
    def __init__(self, series: np.ndarray, scale_once: bool) -> None:
        self.series = standardized(series) if scale_once else series
        self.scaled = scale_once

    def __len__(self) -> int:
        return len(self.series) - PAST - AHEAD

    def __getitem__(self, start: int):
        series = self.series if self.scaled else standardized(self.series)  # cause
        window = torch.from_numpy(series[start : start + PAST + AHEAD])
        return window[:PAST], window[PAST:]


class Dilated(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        return x + self.mix(nn.functional.glu(self.conv(x), dim=1))


class Forecaster(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, 16, 3, padding=1)
        self.blocks = nn.Sequential(*[Dilated(16, 2**i) for i in range(4)])
        self.head = nn.Linear(16, AHEAD)

    def training_step(self, batch, batch_idx):
        past, ahead = batch
        features = self.blocks(self.stem(past[:, None]))
        loss = nn.functional.huber_loss(self.head(features[:, :, -1]), ahead)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    hours = np.arange(5 * 365 * 24)
    noise = np.random.default_rng(0).normal(size=len(hours))
    series = (900 + 200 * np.sin(hours / 24 * 2 * np.pi) + 40 * noise).astype(np.float32)
    data = DataLoader(LoadWindows(series, run.fixed), batch_size=32, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Forecaster(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
