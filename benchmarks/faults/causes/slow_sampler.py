"""The sampler draws each batch from weights over the whole corpus; the fix draws once per epoch."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from cause import Cause
from torch.utils.data import Dataset, Sampler
from workload import BATCH, Setup


class DrawsEach(Sampler[list[int]]):
    """Batches drawn by the weights of `corpus` entries, of which each stands for a row."""

    def __init__(self, dataset: Dataset[Any], *, corpus: int) -> None:
        self.rows = len(dataset)  # type: ignore[arg-type]
        self.weights = torch.rand(corpus) + 0.5

    def __len__(self) -> int:
        return self.rows // BATCH

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            drawn = torch.multinomial(self.weights, BATCH, replacement=True)
            yield (drawn % self.rows).tolist()


class DrawsOnce(DrawsEach):
    def __iter__(self) -> Iterator[list[int]]:
        drawn = torch.multinomial(self.weights, BATCH * len(self), replacement=True)
        yield from (drawn % self.rows).view(-1, BATCH).tolist()


def run(sampler: type[DrawsEach], knob: float) -> Setup:
    return Setup(loader={"batch_sampler": partial(sampler, corpus=max(2, round(knob)))})


CAUSE = Cause(
    name="slow_sampler",
    finding="data-wait",
    fix="draw all batches of an epoch at once",
    faulty=partial(run, DrawsEach),
    fixed=partial(run, DrawsOnce),
    knob="entries in the corpus",
    guess=100_000,
)
