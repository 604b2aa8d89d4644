"""Stretches of a genome: is there a binding site in them?

seen in: deepchem/deepchem pull request 449, "Optimized one hot encoding", and theislab/mubind
issue 2

cause: each letter of a stretch is compared with A, C, G and T in Python, for every item anew
accept: data-wait @line
"""

import random

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
LENGTH, LETTERS = 500, "ACGT"
ROWS = np.zeros((256, 4), dtype=np.float32)
ROWS[[ord(letter) for letter in LETTERS], range(4)] = 1


def encoded(stretch):
    return torch.tensor([[float(letter == one) for one in LETTERS] for letter in stretch])  # cause


def looked_up(stretch):
    return torch.from_numpy(ROWS[np.frombuffer(stretch.encode(), dtype=np.uint8)])


class Stretches(Dataset):
    def __init__(self, stretches, encode) -> None:
        self.stretches, self.encode = stretches, encode

    def __len__(self) -> int:
        return len(self.stretches)

    def __getitem__(self, index):
        stretch = self.stretches[index]
        return self.encode(stretch), float("TATAAT" in stretch)  # cause


class Sites(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(4, 48, 11),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(48, 48, 7),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Linear(48, 1),
        )

    def training_step(self, batch, batch_idx):
        letters, bound = batch
        scores = self.net(letters.mT).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, bound.float())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    chance = random.Random(4)
    stretches = ["".join(chance.choices(LETTERS, k=LENGTH)) for _ in range(1200)]
    items = Stretches(stretches, looked_up if run.fixed else encoded)
    data = DataLoader(items, batch_size=24, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Sites(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
