"""How many bicycles are rented in the next hour? A GRU that knows the calendar.

seen in: tardis-dev/tardis-python pull request 10 ("strptime() is slow"), the same in
Emptyset110/SinaL2 issue 5, and CenterForTheBuiltEnvironment/mave issue 3, "Datetime parsing and
related input features"

cause: each window parses the dates of its hours from text, and every hour lies in many windows
right: names the fetching of items in the loader, or the lines that parse dates; its change takes
    that work out of the step (parsed once beforehand, or worker processes)
"""

import math
from datetime import datetime, timedelta

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

STEPS = 850
HOURS, PAST = 4000, 48


def calendar(stamp: str) -> list[float]:
    time = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S")  # cause
    day = 2 * math.pi * time.hour / 24
    return [math.sin(day), math.cos(day), time.weekday() / 6, time.month / 12]  # cause


class Windows(Dataset):
    def __init__(self, stamps: list[str], rented, parse_once: bool) -> None:
        self.stamps, self.rented = stamps, rented
        self.times = self.parsed(0, len(stamps)) if parse_once else None

    def __len__(self) -> int:
        return len(self.stamps) - PAST

    def parsed(self, first: int, last: int):
        times = [calendar(stamp) for stamp in self.stamps[first:last]]  # cause
        return np.array(times, dtype=np.float32)

    def __getitem__(self, first):
        last = first + PAST
        times = self.parsed(first, last) if self.times is None else self.times[first:last]  # cause
        past = np.concatenate([self.rented[first:last, None], times], axis=1)
        return torch.from_numpy(past), self.rented[last]


class Bicycles(L.LightningDataModule):
    def __init__(self, parse_once: bool) -> None:
        super().__init__()
        self.parse_once = parse_once

    def setup(self, stage: str) -> None:
        start = datetime(2024, 1, 1)
        stamps = [str(start + timedelta(hours=hour)) for hour in range(HOURS)]
        rented = np.random.default_rng(1).random(HOURS, dtype=np.float32)
        windows = Windows(stamps, rented, self.parse_once)
        self.train, self.later = random_split(windows, [0.96, 0.04])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.later, batch_size=64)


class Rentals(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 80, batch_first=True)
        self.head = nn.Linear(80, 1)

    def error(self, batch):
        past, rented = batch
        return nn.functional.mse_loss(self.head(self.gru(past)[0][:, -1])[:, 0], rented)

    def training_step(self, batch, batch_idx):
        loss = self.error(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.error(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Rentals(), datamodule=Bicycles(run.fixed))


if __name__ == "__main__":
    main(arguments(STEPS))
