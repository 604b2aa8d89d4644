"""A callback takes histograms of the weights each step; the fix takes them every 60 steps."""

from functools import partial
from typing import Any

import lightning as L
import torch
from cause import Cause
from workload import Setup


class WeightHistograms(L.Callback):
    def __init__(self, *, weights: int, every: int) -> None:
        self.weights, self.every = weights, every
        self.histograms: dict[int, torch.Tensor] = {}

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        if trainer.global_step % self.every:
            return
        left = self.weights
        for number, parameter in enumerate(pl_module.parameters()):
            part = parameter.detach().flatten()[:left]
            self.histograms[number] = torch.histc(part, bins=64)
            left -= len(part)
            if left <= 0:
                break


def run(every: int, knob: float) -> Setup:
    return Setup(callbacks=(partial(WeightHistograms, weights=round(knob), every=every),))


CAUSE = Cause(
    finding="slow-callback",
    fix="take the histograms every 60 steps",
    faulty=partial(run, 1),
    fixed=partial(run, 60),
    knob="weights in the histograms",
    guess=50_000,
)
