"""Features arrive with time last and every block transposes them; the fix lays them out once."""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor, nn
from workload import FEATURES, Setup, Workload

BLOCKS, CHANNELS = 4, 32


class TransposesEach(Workload):
    def __init__(self, *, moments: int) -> None:
        super().__init__()
        self.moments = moments
        self.scales = nn.Parameter(torch.ones(BLOCKS, CHANNELS))
        self.lift = nn.Linear(FEATURES, CHANNELS)

    def features(self, inputs: Tensor) -> Tensor:
        """Return (batch, channels, moments) as a view whose moments lie closest in memory."""
        lifted = self.lift(inputs)
        return lifted[:, :, None].expand(-1, -1, self.moments).contiguous()

    def blocks(self, features: Tensor) -> Tensor:
        for scale in self.scales:
            by_moment = features.transpose(1, 2).contiguous()
            features = (by_moment * scale).transpose(1, 2).contiguous()
        return features.mean()

    def loss(self, batch: Any) -> Tensor:
        return super().loss(batch) + 1e-6 * self.blocks(self.features(batch[0])).square()


class LaidOutOnce(TransposesEach):
    def blocks(self, features: Tensor) -> Tensor:
        for scale in self.scales:
            features = features * scale[:, None]
        return features.mean()


def run(module: type[TransposesEach], knob: float) -> Setup:
    return Setup(module=partial(module, moments=round(knob)))


CAUSE = Cause(
    finding="non-contiguous-layout",
    fix="keep one layout and shape the scale instead of the features",
    faulty=partial(run, TransposesEach),
    fixed=partial(run, LaidOutOnce),
    knob="moments per feature map",
    guess=32,
    whole=True,
)
