"""How high will the waves be? Forecasts from the readings of thousands of buoys.

cause: the readings lie in memory hour after hour (hours by buoys), but __getitem__ takes a long
    window of one buoy: each number of it lies in another page of memory, far from the last
right: names the line of __getitem__ that reads the window (or the wait for data that it causes);
    its change is to lay the readings out buoy after buoy once, before training (a contiguous copy
    of the transposed array), or to cut windows of all buoys at once

Seen in https://github.com/geocryology/globsim/issues/154 (time last is faster for one station) and
https://github.com/ecmwf-projects/ibicus/pull/38 (the same, in memory).
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
HOURS, BUOYS, WINDOW, AHEAD, BATCH = 9000, 3000, 1440, 24, 64


class Waves(Dataset):
    """A window of one buoy's readings, scaled by that buoy's mean and deviation."""

    def __init__(self, readings, fixed) -> None:
        self.readings = np.asfortranarray(readings) if fixed else readings
        self.mean = readings[:200].mean(axis=0)
        self.deviation = readings[:200].std(axis=0)

    def __len__(self) -> int:
        return 64 * BUOYS

    def __getitem__(self, index):
        buoy = index % BUOYS
        start = int(torch.randint(HOURS - WINDOW - AHEAD, ()))
        window = self.readings[start : start + WINDOW + AHEAD, buoy] - self.mean[buoy]  # cause
        window = torch.from_numpy(window / self.deviation[buoy])
        return window[:WINDOW], window[WINDOW:]


class Forecast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 32, 12, stride=6),
            nn.ReLU(),
            nn.Conv1d(32, 64, 5, stride=2),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.LazyLinear(128),
            nn.ReLU(),
            nn.Linear(128, AHEAD),
        )

    def training_step(self, batch, batch_idx):
        window, ahead = batch
        loss = nn.functional.smooth_l1_loss(self.net(window.unsqueeze(1)), ahead)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    chance = np.random.default_rng(2)
    hours = np.arange(HOURS, dtype=np.float32)[:, None]
    phases = chance.random((1, BUOYS), dtype=np.float32) * 6.28
    readings = np.sin(hours / 9 + phases)
    readings += 0.3 * chance.standard_normal((HOURS, BUOYS), dtype=np.float32)
    model = Forecast()
    model.net(torch.zeros(2, 1, WINDOW))
    waves = Waves(readings, run.fixed)
    data = DataLoader(waves, batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
