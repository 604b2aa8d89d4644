"""The sampler ranks the scores of the whole corpus for each batch; the fix ranks once per epoch.

It runs in the training process, so workers cannot take this work over.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from cause import Cause
from torch.utils.data import Dataset, Sampler
from workload import BATCH, Setup


class RanksEach(Sampler[list[int]]):
    """Batches of the highest-scored entries of a corpus, each of which stands for a row."""

    def __init__(self, dataset: Dataset[Any], *, corpus: int) -> None:
        self.rows = len(dataset)  # type: ignore[arg-type]
        self.scores = torch.rand(max(corpus, self.rows))

    def __len__(self) -> int:
        return self.rows // BATCH

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(len(self)):
            ranked = self.scores.argsort(descending=True)
            yield self.batch(ranked, number)

    def batch(self, ranked: torch.Tensor, number: int) -> list[int]:
        chosen = ranked[number * BATCH : (number + 1) * BATCH]
        return (chosen % self.rows).tolist()


class RanksOnce(RanksEach):
    def __iter__(self) -> Iterator[list[int]]:
        ranked = self.scores.argsort(descending=True)
        for number in range(len(self)):
            yield self.batch(ranked, number)


def run(sampler: type[RanksEach], knob: float) -> Setup:
    return Setup(loader={"batch_sampler": partial(sampler, corpus=round(knob))})


CAUSE = Cause(
    finding="data-wait",
    fix="rank once per epoch",
    faulty=partial(run, RanksEach),
    fixed=partial(run, RanksOnce),
    advised=partial(run, RanksEach),
    knob="entries in the corpus",
    guess=16_000,
)
