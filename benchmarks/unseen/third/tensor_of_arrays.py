"""Heartbeats: rhythm from twelve leads of an electrocardiogram.

seen in: pytorch/pytorch issue 13918, "Pytorch very slow to convert list of numpy arrays into
tensors"

cause: the collate gives torch.tensor a list of arrays, which it reads number by number
accept: data-wait @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
LEADS, LENGTH, RHYTHMS = 12, 300, 9


class Hearts(Dataset):
    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.signals = rng.standard_normal((count, LEADS, LENGTH)).astype(np.float32)
        self.rhythms = rng.integers(RHYTHMS, size=count).tolist()

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, i: int):
        return self.signals[i], self.rhythms[i]


def collate(samples):
    signals, rhythms = zip(*samples, strict=True)
    return torch.tensor(signals), torch.tensor(rhythms)  # cause


def collate_stacked(samples):
    signals, rhythms = zip(*samples, strict=True)
    return torch.from_numpy(np.stack(signals)), torch.tensor(rhythms)


class Rhythm(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(LEADS, 48, 7, stride=2, padding=3),
            nn.ReLU(),
            nn.Conv1d(48, 64, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(64, 96, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(96, RHYTHMS),
        )

    def training_step(self, batch, batch_idx):
        signals, rhythms = batch
        loss = nn.functional.cross_entropy(self.net(signals), rhythms)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    together = collate_stacked if run.fixed else collate  # cause
    data = DataLoader(Hearts(1600), batch_size=24, shuffle=True, collate_fn=together)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Rhythm(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
