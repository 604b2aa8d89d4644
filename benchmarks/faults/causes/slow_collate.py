"""Ragged rows are padded as Python lists; the fix keeps tensors and pads them in one call."""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from workload import Rows, Setup

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


class RaggedTensors(Ragged):
    def __init__(self, count: int, *, longest: int) -> None:
        super().__init__(count, longest=longest)
        self.tokens = [torch.tensor(tokens) for tokens in self.tokens]


def _batch(items: list[Any], padded: Tensor) -> tuple[Tensor, Tensor]:
    inputs = torch.stack([item[0] for item in items])
    fill = (padded > 0).float().mean(dim=1, keepdim=True)
    return inputs * fill, torch.stack([item[1] for item in items])


def pad_lists(items: list[Any]) -> tuple[Tensor, Tensor]:
    longest = max(len(tokens) for _, _, tokens in items)
    rows = []
    for _, _, tokens in items:
        rows.append(tokens + [0] * (longest - len(tokens)))
    return _batch(items, torch.tensor(rows))


def pad_tensors(items: list[Any]) -> tuple[Tensor, Tensor]:
    return _batch(items, pad_sequence([tokens for _, _, tokens in items], batch_first=True))


def faulty(knob: float) -> Setup:
    return Setup(dataset=partial(Ragged, longest=4 + round(knob)), loader={"collate_fn": pad_lists})


def fixed(knob: float) -> Setup:
    return Setup(
        dataset=partial(RaggedTensors, longest=4 + round(knob)), loader={"collate_fn": pad_tensors}
    )


CAUSE = Cause(
    name="slow_collate",
    finding="data-wait",
    fix="keep the rows as tensors and pad them with pad_sequence",
    faulty=faulty,
    fixed=fixed,
    advised=faulty,
    knob="tokens in the longest row",
    guess=400,
)
