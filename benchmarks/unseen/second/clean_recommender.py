"""Two towers for songs and listeners: sparse tables, in-batch negatives, batches by slicing.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 350
LISTENERS, SONGS, SIZE, BATCH = 40_000, 20_000, 32, 256


class Plays(IterableDataset):
    """Yields batches of a table of plays that is shuffled once an epoch."""

    def __init__(self, count: int) -> None:
        self.listeners = torch.randint(LISTENERS, (count,))
        self.songs = torch.randint(SONGS, (count,))

    def __iter__(self):
        order = torch.randperm(len(self.songs))
        pairs = zip(self.listeners[order].split(BATCH), self.songs[order].split(BATCH), strict=True)
        yield from pairs


class Tower(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, SIZE, sparse=True)
        self.net = nn.Sequential(nn.Linear(SIZE, 512), nn.ReLU(), nn.Linear(512, 256))

    def forward(self, ids):
        return nn.functional.normalize(self.net(self.table(ids)))


class TwoTowers(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.listener, self.song = Tower(LISTENERS), Tower(SONGS)

    def training_step(self, batch, batch_idx):
        listeners, songs = batch
        scores = self.listener(listeners) @ self.song(songs).T / 0.1
        loss = nn.functional.cross_entropy(scores, torch.arange(len(songs)))
        if batch_idx % 20 == 0:
            self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.02)


def main(run: Run) -> None:
    data = DataLoader(Plays(100 * BATCH), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(TwoTowers(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
