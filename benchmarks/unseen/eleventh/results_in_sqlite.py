"""How strong will the wind be? Station series to quantiles, with the lab's own results database.

cause: the lab's logger opens its database, writes and commits one row a metric, a commit for each
right: time in the logger; names SqliteLogger.log_metrics (or a marked line, or the commit); the
    change commits once a call or less often, keeps rows and writes them later, or logs less often
"""

import sqlite3

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
HOURS, AHEAD, STATIONS, QUANTILES = 48, 6, 3000, (0.1, 0.25, 0.5, 0.75, 0.9)


class SqliteLogger(Logger):
    """Every run of the group ends up in one table."""

    def __init__(self, path, keep: bool) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self.path, self.keep, self.rows = path, keep, []
        with sqlite3.connect(self.path) as database:
            database.execute("create table results (step integer, name text, value real)")

    @property
    def name(self):
        return "wind"

    @property
    def version(self):
        return 0

    @rank_zero_only
    def log_hyperparams(self, params, *args, **kwargs):
        pass

    @rank_zero_only
    def log_metrics(self, metrics, step=None):
        for name, value in metrics.items():
            if self.keep:
                self.rows.append((step, name, value))
                continue
            database = sqlite3.connect(self.path)  # cause
            database.execute("insert into results values (?, ?, ?)", (step, name, value))  # cause
            database.commit()  # cause
            database.close()

    @rank_zero_only
    def finalize(self, status):
        with sqlite3.connect(self.path) as database:
            database.executemany("insert into results values (?, ?, ?)", self.rows)
        self.rows = []


class Wind(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.past = nn.GRU(4, 96, batch_first=True)
        self.head = nn.Linear(96, AHEAD * len(QUANTILES))
        self.register_buffer("at", torch.tensor(QUANTILES))

    def training_step(self, batch, batch_idx):
        seen, wind = batch
        _, last = self.past(seen)
        guessed = self.head(last[0]).view(-1, AHEAD, len(QUANTILES))
        missed = wind[..., None] - guessed
        pinball = torch.maximum(self.at * missed, (self.at - 1) * missed).mean((0, 1))
        loss = pinball.sum()
        if (self.global_step + 1) % self.trainer.log_every_n_steps == 0:
            self.log_dict({f"q{q}": part for q, part in zip(QUANTILES, pinball, strict=True)})
            self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    series = torch.randn(STATIONS, HOURS + AHEAD, 4).cumsum(1) / 10
    windows = TensorDataset(series[:, :HOURS], series[:, HOURS:, 0])
    data = DataLoader(windows, batch_size=32, shuffle=True, drop_last=True)
    logger = SqliteLogger(run.root / "results.db", keep=run.fixed)
    trainer = L.Trainer(callbacks=run.callbacks, logger=logger, log_every_n_steps=10, **run.trainer)
    trainer.fit(Wind(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
