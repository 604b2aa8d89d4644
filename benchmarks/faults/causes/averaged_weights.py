"""A callback averages every weight in Python each step; the fix does so every 20 steps."""

from functools import partial
from typing import Any

import lightning as L
import torch
from cause import Cause
from workload import Setup


class AveragedWeights(L.Callback):
    """Exponential means of the weights at several decays."""

    def __init__(self, *, decays: int, every: int) -> None:
        self.decays = [1 - 0.1 / (2 + number) for number in range(decays)]
        self.every = every
        self.means: list[list[torch.Tensor]] = []

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        parameters = [parameter.detach() for parameter in pl_module.parameters()]
        self.means = [[value.clone() for value in parameters] for _ in self.decays]

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        if trainer.global_step % self.every:
            return
        for decay, means in zip(self.decays, self.means, strict=True):
            for mean, parameter in zip(means, pl_module.parameters(), strict=True):
                mean.lerp_(parameter.detach(), 1 - decay**self.every)


def run(every: int, knob: float) -> Setup:
    return Setup(callbacks=(partial(AveragedWeights, decays=max(1, round(knob)), every=every),))


CAUSE = Cause(
    finding="slow-callback",
    fix="average every 20 steps",
    faulty=partial(run, 1),
    fixed=partial(run, 20),
    knob="decays",
    guess=2,
    whole=True,
)
