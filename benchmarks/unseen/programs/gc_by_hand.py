"""A text classifier that once ran out of memory, and has collected garbage by hand ever since.

cause: gc.collect() in the module's on_train_batch_end, every 20 steps
accept: slow-callback step-time-jitter
"""

import gc
from dataclasses import dataclass, field

import torch
from case import Run, Supervised, mlp, shuffled
from torch import nn

STEPS, WORDS = 550, 4_000


@dataclass
class Word:
    text: str
    number: int
    synonyms: list[str] = field(default_factory=list)
    features: dict[str, list[int]] = field(default_factory=dict)


class Classifier(Supervised):
    collect, vocabulary = False, ()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.collect and batch_idx % 20 == 0:
            gc.collect()  # cause


def main(run: Run) -> None:
    model = Classifier(nn.EmbeddingBag(WORDS, 64), mlp(64, 512, 512, 30))
    names = [(f"word{n}", n, [f"w{n}", f"v{n}"], {"cases": [n, n + 1]}) for n in range(WORDS)]
    model.collect, model.vocabulary = not run.fixed, [Word(*name) for name in names]
    texts = torch.randint(WORDS, (6400, 40)), torch.randint(30, (6400,))
    run.fit(model, shuffled(128, *texts))
