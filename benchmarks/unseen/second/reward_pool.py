"""Captions by policy gradient: sampled words are scored against references in two processes.

cause: a pool of processes is started and ended in every training step
accept: @line
"""

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200
WORDS, LENGTH = 500, 16


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("fork"))


def overlap(pair) -> float:
    """Return the share of bigrams of a caption that its reference has too."""
    caption, reference = pair
    known = set(pairwise(reference))
    return sum(two in known for two in pairwise(caption)) / len(caption)


class Captioner(L.LightningModule):
    def __init__(self, keep_pool: bool) -> None:
        super().__init__()
        self.keep_pool, self.pool = keep_pool, None
        self.into = nn.Linear(512, LENGTH * 48)
        self.mix = nn.GRU(48, 192, batch_first=True)
        self.out = nn.Linear(192, WORDS)

    def setup(self, stage):
        if self.keep_pool:
            self.pool = processes()

    def teardown(self, stage):
        if self.pool is not None:
            self.pool.shutdown()

    def rewards(self, captions, references):
        pairs = list(zip(captions.tolist(), references.tolist(), strict=True))
        if self.pool is not None:
            return torch.tensor(list(self.pool.map(overlap, pairs, chunksize=12)))
        with processes() as pool:  # cause
            return torch.tensor(list(pool.map(overlap, pairs, chunksize=12)))  # cause

    def training_step(self, batch, batch_idx):
        images, references = batch
        states, _ = self.mix(self.into(images).unflatten(1, (LENGTH, 48)))
        policy = torch.distributions.Categorical(logits=self.out(states), validate_args=False)
        captions = policy.sample()
        rewards = self.rewards(captions, references)  # cause
        loss = -((rewards - rewards.mean())[:, None] * policy.log_prob(captions)).mean()
        self.log("reward", rewards.mean())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)


def main(run: Run) -> None:
    images = TensorDataset(torch.randn(1600, 512), torch.randint(WORDS, (1600, LENGTH)))
    data = DataLoader(images, batch_size=24, shuffle=True)
    model = Captioner(keep_pool=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
