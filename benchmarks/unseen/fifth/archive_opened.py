"""Gamma or proton? Telescope pictures of showers, all in one archive.

seen in: ctlearn-project/ctlearn issue 2, "Move open_file and close_file calls outside load_data
functions", and pesser/edflow issue 272 (the file opened in every __getitem__)

cause: the archive is opened for every picture, which reads its whole table of contents again
right: names the fetching of items in the loader, or the line that opens the archive; its change
    takes that work out of the step (opened once and kept, read to memory once, or worker processes)
"""

import zipfile
from pathlib import Path

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
COUNT, SIDE = 250, 64


class Showers(Dataset):
    def __init__(self, path: Path, keep_open: bool) -> None:
        self.path = path
        self.archive = zipfile.ZipFile(path) if keep_open else None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index):
        if self.archive:
            data = self.archive.read(f"{index:05d}.raw")
        else:
            with zipfile.ZipFile(self.path) as archive:  # cause
                data = archive.read(f"{index:05d}.raw")
        charges = np.frombuffer(data, dtype=np.float16).reshape(1, SIDE, SIDE)
        return torch.from_numpy(charges.astype(np.float32)), float(index % 2)


class Telescope(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 1),
        )

    def training_step(self, batch, batch_idx):
        charges, gamma = batch
        scores = self.net(charges).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, gamma.float())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(11)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(COUNT):
            charges = chance.exponential(size=(SIDE, SIDE)).astype(np.float16)
            archive.writestr(f"{number:05d}.raw", charges.tobytes())


def main(run: Run) -> None:
    write(run.root / "showers.zip")
    showers = Showers(run.root / "showers.zip", keep_open=run.fixed)
    data = DataLoader(showers, batch_size=16, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Telescope(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
