"""Ragged rows are padded as Python lists; the fix pads all once and indexes whole batches."""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from workload import Rows, Setup, as_made

DISTINCT, VOCABULARY = 64, 1_000


class Ragged(Rows):
    """Rows with a list of token numbers each, up to a quarter shorter than the longest."""

    def __init__(self, count: int, *, longest: int) -> None:
        super().__init__(count)
        generator = torch.Generator().manual_seed(2)
        lengths = torch.randint(longest * 3 // 4, longest + 1, (DISTINCT,), generator=generator)
        self.tokens: list[Any] = [
            torch.randint(1, VOCABULARY, (int(length),), generator=generator).tolist()
            for length in lengths
        ]

    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), self.tokens[index % DISTINCT]


class Padded(Ragged):
    """All rows are one tensor, padded once; a batch is one index of it."""

    def __init__(self, count: int, *, longest: int) -> None:
        super().__init__(count, longest=longest)
        self.lengths = torch.tensor([len(tokens) for tokens in self.tokens])
        rows = [torch.tensor(tokens) for tokens in self.tokens]
        self.padded = pad_sequence(rows, batch_first=True)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        rows = torch.tensor(indices)
        which = rows % DISTINCT
        padded = self.padded[which, : int(self.lengths[which].max())]
        return filled(self.inputs[rows], padded), self.targets[rows]


def filled(inputs: Tensor, padded: Tensor) -> Tensor:
    return inputs * (padded > 0).float().mean(dim=1, keepdim=True)


def pad_lists(items: list[Any]) -> tuple[Tensor, Tensor]:
    longest = max(len(tokens) for _, _, tokens in items)
    rows = []
    for _, _, tokens in items:
        rows.append(tokens + [0] * (longest - len(tokens)))
    inputs = torch.stack([item[0] for item in items])
    return filled(inputs, torch.tensor(rows)), torch.stack([item[1] for item in items])


def faulty(knob: float) -> Setup:
    return Setup(dataset=partial(Ragged, longest=4 + round(knob)), loader={"collate_fn": pad_lists})


def fixed(knob: float) -> Setup:
    return Setup(dataset=partial(Padded, longest=4 + round(knob)), loader={"collate_fn": as_made})


CAUSE = Cause(
    finding="data-wait",
    fix="pad all rows once, before training, and index whole batches",
    faulty=faulty,
    fixed=fixed,
    advised=faulty,
    knob="tokens in the longest row",
    guess=400,
)
