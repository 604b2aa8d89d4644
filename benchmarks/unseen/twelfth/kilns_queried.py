"""Will the glaze crack? A GRU over the thermocouples of firings, read from an SQLite file.

cause: the table has no index on firing, so that each item's SELECT in the workers scans the
    readings of all firings to find the sixty of one
right: names __getitem__ (or the loader's workers as too slow for the step) at a marked line; its
    change makes the query cheaper (an index) or reads the table once into memory
"""

import sqlite3
import tempfile
from pathlib import Path

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 260
FIRINGS, MINUTES, PROBES, BATCH = 300, 60, 5, 12
COLUMNS = ", ".join(f"probe{number}" for number in range(PROBES))


def write_database(path: Path, indexed: bool) -> None:
    draw = np.random.default_rng(3)
    heat = draw.normal(size=(FIRINGS, MINUTES, PROBES)).cumsum(axis=1)
    order = draw.permutation(FIRINGS * MINUTES)
    with sqlite3.connect(path) as base:
        base.execute(f"CREATE TABLE readings (firing INTEGER, minute INTEGER, {COLUMNS})")
        rows = ((int(at // MINUTES), int(at % MINUTES)) for at in order)
        base.executemany(
            f"INSERT INTO readings VALUES (?, ?{', ?' * PROBES})",
            ((firing, minute, *heat[firing, minute].tolist()) for firing, minute in rows),
        )
        if indexed:
            base.execute("CREATE INDEX by_firing ON readings (firing, minute)")


class Firings(Dataset):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.base: sqlite3.Connection | None = None
        self.cracked = torch.rand(FIRINGS).round()

    def __len__(self) -> int:
        return FIRINGS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if self.base is None:
            self.base = sqlite3.connect(self.path)
        query = f"SELECT {COLUMNS} FROM readings WHERE firing = ? ORDER BY minute"
        rows = self.base.execute(query, (index,)).fetchall()  # cause
        return {"curve": torch.tensor(rows), "cracked": self.cracked[index]}


class Cracks(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(PROBES, 64, num_layers=2, batch_first=True)
        self.head = nn.Linear(64, 1)

    def training_step(self, batch, batch_idx):
        _, last = self.gru(batch["curve"])
        logits = self.head(last[-1]).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch["cracked"])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kilns.sqlite"
        write_database(path, indexed=run.fixed)
        data = DataLoader(
            Firings(path), batch_size=BATCH, shuffle=True, num_workers=2, persistent_workers=True
        )
        L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Cracks(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
