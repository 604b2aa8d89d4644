"""How high will the water be? Forecasts from a gauge and the known periods of sun and moon.

cause: __getitem__ works out sine and cosine of eight tidal periods for every hour of its window
    anew, though they depend on the hour alone and each hour lies in hundreds of windows
right: names the sines and cosines in periods, called by __getitem__ (or the wait for data that
    they cause); its change is to work out one table of all hours before training and to take each
    window's rows from it

Seen in https://github.com/awslabs/gluonts/issues/2052 ("potential bottleneck in training") and
https://github.com/sktime/pytorch-forecasting/pull/1850 (computing once what __getitem__ does).
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
GAUGES, HOURS, WINDOW, AHEAD, BATCH = 60, 9000, 480, 24, 64
PERIODS = np.array([12.42, 12.0, 12.66, 23.93, 25.82, 24.07, 327.9, 661.3])


def periods(hours):
    """Return sine and cosine of each tidal period at these hours."""
    angles = 2 * np.pi * hours[:, None] / PERIODS  # cause
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)  # cause


class Tides(Dataset):
    """Windows of a gauge's heights, with the state of sun and moon at each hour."""

    def __init__(self, heights, fixed) -> None:
        self.heights = heights
        self.table = periods(np.arange(HOURS)) if fixed else None

    def __len__(self) -> int:
        return GAUGES * (HOURS - WINDOW - AHEAD) // 12

    def __getitem__(self, index):
        gauge, start = index % GAUGES, 12 * (index // GAUGES)
        hours = slice(start, start + WINDOW)
        if self.table is None:
            known = periods(np.arange(start, start + WINDOW))
        else:
            known = self.table[hours]
        seen = self.heights[gauge, hours, None]
        ahead = self.heights[gauge, hours.stop : hours.stop + AHEAD]
        return np.concatenate([seen, known], axis=1), ahead


class Forecast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1 + 2 * len(PERIODS), 32, 7, stride=2),
            nn.SiLU(),
            nn.Conv1d(32, 48, 5, stride=2),
            nn.SiLU(),
            nn.Conv1d(48, 64, 5, stride=2),
            nn.SiLU(),
            nn.AdaptiveAvgPool1d(8),
            nn.Flatten(),
            nn.Linear(8 * 64, AHEAD),
        )

    def training_step(self, batch, batch_idx):
        seen, ahead = batch
        loss = nn.functional.smooth_l1_loss(self.net(seen.transpose(1, 2)), ahead)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    chance = np.random.default_rng(2)
    shares = chance.random((GAUGES, 2 * len(PERIODS)), dtype=np.float32)
    heights = shares @ periods(np.arange(HOURS)).T
    heights += 0.2 * chance.standard_normal((GAUGES, HOURS), dtype=np.float32)
    data = DataLoader(Tides(heights, run.fixed), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Forecast(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
