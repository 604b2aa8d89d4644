"""How much power will the house draw? A GRU over meter readings and the hours they were read at.

cause: the dataset parses the written date of each reading of a window, for every window anew, to
    know its hour and its weekday
right: names the parsing of dates in the dataset (strptime in __getitem__); its change is to parse
    all once in __init__ and to cut windows of the result (workers help too, but not as much)
"""

import math
from datetime import datetime, timedelta

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 170
READ, WINDOW, BATCH = 8000, 96, 16
WRITTEN = "%d.%m.%Y %H:%M"


class Meters(Dataset):
    def __init__(self, fixed) -> None:
        start = datetime(2024, 1, 1)
        hours = torch.arange(READ)
        self.power = torch.sin(hours * math.tau / 24) + 0.1 * torch.randn(READ)
        self.dates = [(start + timedelta(hours=h)).strftime(WRITTEN) for h in range(READ)]
        self.when = told(self.dates) if fixed else None

    def __len__(self):
        return READ - WINDOW

    def __getitem__(self, index):
        end = index + WINDOW
        if self.when is None:
            when = told(self.dates[index:end])
        else:
            when = self.when[index:end]
        seen = torch.cat([self.power[index:end, None], when], dim=1)
        return seen, self.power[end]


def told(dates):
    """Return the hour and the weekday of each date, as points of a circle."""
    rows = []
    for date in dates:
        at = datetime.strptime(date, WRITTEN)  # cause
        hour, day = at.hour / 24 * math.tau, at.weekday() / 7 * math.tau
        rows.append((math.sin(hour), math.cos(hour), math.sin(day), math.cos(day)))
    return torch.tensor(rows)


class Forecast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 96, batch_first=True)
        self.out = nn.Linear(96, 1)

    def training_step(self, batch, batch_idx):
        seen, power = batch
        hidden, _ = self.gru(seen)
        loss = nn.functional.huber_loss(self.out(hidden[:, -1]).squeeze(1), power)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Meters(run.fixed), batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Forecast(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
