"""How full will the reservoirs be? A GRU over the rain and the levels of 36 reservoirs.

cause: training_step logs the error and the bias of each of the 36 reservoirs by a call of self.log
    of their own, at every step
right: names training_step's self.log calls (logging), or points at a marked line first; its change
    logs fewer values, less often, or gathers the errors in a tensor and logs them once an epoch
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
DAYS, PAST, RESERVOIRS = 8000, 45, 36


class Levels(Dataset):
    """Windows of the last days' levels and rain, and the levels of the day after."""

    def __init__(self) -> None:
        rain = torch.rand(DAYS, RESERVOIRS).pow(3)
        season = torch.sin(torch.arange(DAYS) / 58)[:, None]
        levels = season + 0.02 * (rain - rain.mean()).cumsum(dim=0)
        self.series = torch.cat([levels, rain], dim=1)

    def __len__(self):
        return DAYS - PAST

    def __getitem__(self, day):
        window = self.series[day : day + PAST]
        return window, self.series[day + PAST, :RESERVOIRS]


class Forecaster(L.LightningModule):
    def __init__(self, by_reservoir) -> None:
        super().__init__()
        self.by_reservoir = by_reservoir
        self.gru = nn.GRU(2 * RESERVOIRS, 160, batch_first=True)
        self.head = nn.Linear(160, RESERVOIRS)

    def training_step(self, batch, batch_idx):
        past, levels = batch
        states, _ = self.gru(past)
        wrong = self.head(states[:, -1]) + past[:, -1, :RESERVOIRS] - levels
        loss = wrong.square().mean()
        self.log("train/loss", loss)
        if self.by_reservoir:
            for number in range(RESERVOIRS):  # cause
                error = wrong[:, number].detach()
                self.log(f"train/mae_{number}", error.abs().mean(), on_epoch=True)  # cause
                self.log(f"train/bias_{number}", error.mean(), on_epoch=True)  # cause
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Levels(), batch_size=32, shuffle=True, drop_last=True)
    model = Forecaster(by_reservoir=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
