"""A language model of short poems, whose data module tokenizes the corpus without its echoes.

cause: reload_dataloaders_every_n_epochs=1, left from a curriculum, does it all again each epoch
accept: rebuilt-loader slow-epoch-start @line
"""

import re
from zlib import crc32

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 500
LENGTH, WORDS = 24, 1500
TOKEN = re.compile(r"[a-z]+|[^\sa-z]")


class Poems(L.LightningDataModule):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def tokenize(self, line: str) -> list[int]:
        ids = [crc32(token.encode()) % WORDS for token in TOKEN.findall(line.lower())]  # cause
        return (ids + [0] * LENGTH)[: LENGTH + 1]

    def unlike_each_other(self, texts: list[list[int]]) -> list[list[int]]:
        """Drop texts that share nearly all of their words with an earlier one."""
        kept, sets = [], []
        for text in texts:
            words = set(text)
            if all(len(words & others) < 0.8 * len(words) for others in sets):  # cause
                kept.append(text)
                sets.append(words)
        return kept

    def train_dataloader(self):
        texts = [self.tokenize(line) for line in self.lines]  # cause
        ids = torch.tensor(self.unlike_each_other(texts))  # cause
        return DataLoader(TensorDataset(ids), batch_size=16, shuffle=True)


class PoemModel(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 64)
        self.gru = nn.GRU(64, 96, batch_first=True)
        self.head = nn.Linear(96, WORDS)

    def training_step(self, batch, batch_idx):
        (ids,) = batch
        states, _ = self.gru(self.embed(ids[:, :-1]))
        loss = nn.functional.cross_entropy(self.head(states).flatten(0, 1), ids[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main(run: Run) -> None:
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnoprstuvwy"))
    words = ["".join(rng.choice(letters, size=5)) for _ in range(WORDS)]
    lines = [", ".join(rng.choice(words, size=14)) + "." for _ in range(800)]
    options = {} if run.fixed else {"reload_dataloaders_every_n_epochs": 1}  # cause
    trainer = L.Trainer(callbacks=run.callbacks, **options, **run.trainer)  # cause
    trainer.fit(PoemModel(), datamodule=Poems(lines))  # cause


if __name__ == "__main__":
    main(arguments(STEPS))
