"""Which recipe next? A sequence model that tells the next recipe from a few others.

seen in: numpy/numpy issues 2764 and 16268, on `np.random.choice` without replacement

cause: np.random.choice(..., replace=False) permutes all recipes to draw eight of them
accept: data-wait @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
RECIPES, LENGTH, OTHERS = 4000, 20, 8


class Cooks(Dataset):
    def __init__(self, histories: np.ndarray, generator: np.random.Generator | None) -> None:
        self.histories, self.generator = histories, generator

    def __len__(self) -> int:
        return len(self.histories)

    def others(self) -> np.ndarray:
        if self.generator is not None:
            return self.generator.choice(RECIPES, OTHERS, replace=False)
        return np.random.choice(RECIPES, OTHERS, replace=False)  # cause

    def __getitem__(self, i: int):
        history = torch.from_numpy(self.histories[i])
        return history[:-1], history[-1:], torch.from_numpy(self.others())  # cause


class NextRecipe(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(RECIPES, 48)
        self.gru = nn.GRU(48, 96, batch_first=True)
        self.out = nn.Linear(96, 48)

    def training_step(self, batch, batch_idx):
        past, following, others = batch
        _, state = self.gru(self.embed(past))
        wanted = self.embed(torch.cat([following, others], dim=1))
        scores = (wanted @ self.out(state[0]).unsqueeze(2)).squeeze(2)
        loss = nn.functional.cross_entropy(scores, torch.zeros(len(past), dtype=torch.long))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    histories = np.random.default_rng(0).integers(RECIPES, size=(4000, LENGTH + 1))
    cooks = Cooks(histories, np.random.default_rng(1) if run.fixed else None)
    data = DataLoader(cooks, batch_size=48, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(NextRecipe(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
