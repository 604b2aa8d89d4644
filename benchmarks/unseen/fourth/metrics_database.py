"""Which post goes to which desk; the figures of a run go to a database that a colleague reads.

seen in: mlflow/mlflow issue 4299, "SqlAlchemyStore.log_batch should really write in batches", and
Lightning-AI/pytorch-lightning issue 3393

cause: the logger commits every figure on its own, so each waits for the disk
accept: slow-logging @line
"""

import sqlite3

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200
WORDS, DESKS = 2000, 14


class Database(Logger):
    def __init__(self, folder, at_once: int) -> None:
        super().__init__()
        self.folder, self.at_once, self.waiting = folder, at_once, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(folder / "runs.db")
        self.connection.execute("CREATE TABLE figure (step INTEGER, name TEXT, value REAL)")

    @property
    def name(self):
        return "desks"

    @property
    def version(self):
        return 0

    @property
    def save_dir(self):
        return str(self.folder)

    @property
    @rank_zero_experiment
    def experiment(self):
        return self.connection

    @rank_zero_only
    def log_hyperparams(self, params, *args, **kwargs):
        pass

    @rank_zero_only
    def log_metrics(self, metrics, step=None):
        for name, value in metrics.items():
            row = (step, name, float(value))
            self.connection.execute("INSERT INTO figure VALUES (?, ?, ?)", row)
            self.waiting += 1
            if self.waiting >= self.at_once:
                self.connection.commit()  # cause
                self.waiting = 0

    @rank_zero_only
    def finalize(self, status):
        self.connection.commit()


class Post(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, 256)
        self.net = nn.Sequential(
            nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, DESKS)
        )

    def training_step(self, batch, batch_idx):
        words, desks = batch
        scores = self.net(self.words(words))
        loss = nn.functional.cross_entropy(scores, desks)
        right = (scores.argmax(1) == desks).float().mean()
        self.log_dict({"train_loss": loss, "train_right": right})
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    post = TensorDataset(torch.randint(WORDS, (3200, 60)), torch.randint(DESKS, (3200,)))
    data = DataLoader(post, batch_size=64, shuffle=True)
    logger = Database(run.root / "database", at_once=200 if run.fixed else 1)  # cause
    trainer = L.Trainer(callbacks=run.callbacks, logger=logger, log_every_n_steps=1, **run.trainer)
    trainer.fit(Post(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
