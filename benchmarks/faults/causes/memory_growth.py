"""Every step's predictions are kept and averaged over again; the fix keeps a running mean.

The memory grows and with it the time of each step.
"""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor, nn
from workload import Setup, Workload


class KeepsAll(Workload):
    def __init__(self, *, copies: int) -> None:
        super().__init__()
        self.copies = copies
        self.kept: list[Tensor] = []
        self.mean = torch.zeros(())

    def remember(self, predictions: Tensor) -> None:
        self.kept.append(predictions)
        self.mean = torch.stack(self.kept).mean()

    def loss(self, batch: Any) -> Tensor:
        inputs, targets = batch
        outputs = self(inputs)
        self.remember(outputs.detach().flatten().repeat(self.copies))
        return nn.functional.mse_loss(outputs, targets)


class KeepsMean(KeepsAll):
    def __init__(self, *, copies: int) -> None:
        super().__init__(copies=copies)
        self.seen = 0

    def remember(self, predictions: Tensor) -> None:
        self.seen += 1
        self.mean = self.mean + (predictions.mean() - self.mean) / self.seen


def run(module: type[KeepsAll], knob: float) -> Setup:
    return Setup(module=partial(module, copies=max(1, round(knob))))


CAUSE = Cause(
    finding="memory-growth",
    fix="keep a running mean",
    faulty=partial(run, KeepsAll),
    fixed=partial(run, KeepsMean),
    knob="kept values per step, in batches of predictions (8 KiB)",
    guess=2,
    whole=True,
    full_length=True,
)
