"""A text classifier that once ran out of memory, and has collected garbage by hand ever since.

cause: gc.collect() in the module's on_train_batch_end, every 20 steps
accept: slow-callback
"""

import gc
from dataclasses import dataclass, field

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 550
WORDS = 4_000


@dataclass
class Word:
    text: str
    number: int
    synonyms: list[str] = field(default_factory=list)
    features: dict[str, list[int]] = field(default_factory=dict)


class Classifier(L.LightningModule):
    def __init__(self, vocabulary: list[Word], collect: bool) -> None:
        super().__init__()
        self.vocabulary, self.collect = vocabulary, collect
        self.embed = nn.EmbeddingBag(len(vocabulary), 64)
        self.net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
        self.head = nn.Linear(512, 30)

    def training_step(self, batch, batch_idx):
        words, y = batch
        loss = nn.functional.cross_entropy(self.head(self.net(self.embed(words))), y)
        self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.collect and batch_idx % 20 == 0:
            gc.collect()  # cause

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    vocabulary = [
        Word(f"word{n}", n, [f"w{n}", f"v{n}"], {"cases": [n, n + 1]}) for n in range(WORDS)
    ]
    texts = TensorDataset(torch.randint(WORDS, (6400, 40)), torch.randint(30, (6400,)))
    data = DataLoader(texts, batch_size=128, shuffle=True)
    model = Classifier(vocabulary, collect=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
