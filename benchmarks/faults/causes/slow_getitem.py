"""Every item is unpacked again each time it is asked for; the fix unpacks the data set once.

The report says to index whole batches as well, so the fix does that too (`__getitems__`).

Records are zlib-compressed 16-bit samples, as audio and sensor archives keep them.
"""

import zlib
from functools import partial

import numpy as np
import torch
from cause import Cause
from torch import Tensor
from workload import FEATURES, Rows, Setup, as_made

DISTINCT = 32


class Packed(Rows):
    def __init__(self, count: int, *, samples: int) -> None:
        super().__init__(count)
        walk = np.random.default_rng(0).normal(0, 40, (DISTINCT, samples)).cumsum(axis=1)
        self.blobs = [zlib.compress(row.astype(np.int16).tobytes()) for row in walk]

    def unpack(self, blob: bytes) -> Tensor:
        return torch.from_numpy(np.frombuffer(zlib.decompress(blob), np.int16).copy())

    def level(self, index: int) -> Tensor:
        signal = self.unpack(self.blobs[index % DISTINCT])
        return (signal[:FEATURES].float() / 4096).mean()

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = super().__getitem__(index)
        return inputs + self.level(index), targets


class Unpacked(Packed):
    """Each record's level is known before training, and a batch is one index of tensors."""

    def __init__(self, count: int, *, samples: int) -> None:
        super().__init__(count, samples=samples)
        self.levels = torch.stack([self.level(number) for number in range(DISTINCT)])

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        rows = torch.tensor(indices)
        return self.inputs[rows] + self.levels[rows % DISTINCT, None], self.targets[rows]


def faulty(knob: float) -> Setup:
    return Setup(dataset=partial(Packed, samples=FEATURES + round(knob)))


def fixed(knob: float) -> Setup:
    dataset = partial(Unpacked, samples=FEATURES + round(knob))
    return Setup(dataset=dataset, loader={"collate_fn": as_made})


CAUSE = Cause(
    finding="data-wait",
    fix="unpack the data set once, before training, and index whole batches",
    faulty=faulty,
    fixed=fixed,
    advised=faulty,
    knob="samples per record",
    guess=1_000,
)
