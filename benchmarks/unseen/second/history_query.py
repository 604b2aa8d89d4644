"""Next-item recommendation from a click log in SQLite.

cause: the table has no index on the user, so every sample scans all rows
accept: data-wait @line
"""

import sqlite3
from pathlib import Path

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
USERS, ITEMS, LENGTH = 600, 1500, 20
QUERY = "SELECT item FROM clicks WHERE user = ? ORDER BY at DESC LIMIT ?"


def build(path: Path, indexed: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    rng = np.random.default_rng(0)
    clicks = zip(
        rng.integers(USERS, size=20_000).tolist(),
        rng.integers(ITEMS, size=20_000).tolist(),
        rng.random(20_000).tolist(),
        strict=True,
    )
    with sqlite3.connect(path) as log:
        log.execute("CREATE TABLE clicks (user INTEGER, item INTEGER, at REAL)")
        log.executemany("INSERT INTO clicks VALUES (?, ?, ?)", clicks)
        if indexed:
            log.execute("CREATE INDEX by_user ON clicks (user, at)")


class Histories(Dataset):
    def __init__(self, path: Path) -> None:
        self.log = sqlite3.connect(path)

    def __len__(self) -> int:
        return USERS

    def __getitem__(self, user: int) -> torch.Tensor:
        rows = self.log.execute(QUERY, (user, LENGTH + 1)).fetchall()  # cause
        items = torch.zeros(LENGTH + 1, dtype=torch.long)
        items[: len(rows)] = torch.tensor([item for (item,) in rows])
        return items.flip(0)


class NextItem(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(ITEMS, 64)
        self.gru = nn.GRU(64, 128, batch_first=True)
        self.head = nn.Linear(128, ITEMS)

    def training_step(self, items, batch_idx):
        states, _ = self.gru(self.embed(items[:, :-1]))
        loss = nn.functional.cross_entropy(self.head(states).flatten(0, 1), items[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    path = run.root / "clicks.db"
    build(path, indexed=run.fixed)
    data = DataLoader(Histories(path), batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(NextItem(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
