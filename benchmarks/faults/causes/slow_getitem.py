"""Every item is unpacked again each time it is asked for; the fix unpacks the data set once.

Records are zlib-compressed 16-bit samples, as audio and sensor archives keep them.
"""

import zlib
from functools import partial

import numpy as np
import torch
from cause import Cause
from torch import Tensor
from workload import FEATURES, Rows, Setup

DISTINCT = 32


class Packed(Rows):
    def __init__(self, count: int, *, samples: int) -> None:
        super().__init__(count)
        walk = np.random.default_rng(0).normal(0, 40, (DISTINCT, samples)).cumsum(axis=1)
        self.blobs = [zlib.compress(row.astype(np.int16).tobytes()) for row in walk]

    def unpack(self, blob: bytes) -> Tensor:
        return torch.from_numpy(np.frombuffer(zlib.decompress(blob), np.int16).copy())

    def signal(self, index: int) -> Tensor:
        return self.unpack(self.blobs[index % DISTINCT])

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        level = self.signal(index)[:FEATURES].float() / 4096
        inputs, targets = super().__getitem__(index)
        return inputs + level.mean(), targets


class Unpacked(Packed):
    def __init__(self, count: int, *, samples: int) -> None:
        super().__init__(count, samples=samples)
        self.signals = [self.unpack(blob) for blob in self.blobs]

    def signal(self, index: int) -> Tensor:
        return self.signals[index % DISTINCT]


def run(dataset: type[Packed], knob: float) -> Setup:
    return Setup(dataset=partial(dataset, samples=FEATURES + round(knob)))


CAUSE = Cause(
    name="slow_getitem",
    finding="data-wait",
    fix="unpack the data set once, before training",
    faulty=partial(run, Packed),
    fixed=partial(run, Unpacked),
    advised=partial(run, Packed),
    knob="samples per record",
    guess=1_000,
)
