"""Each auxiliary loss runs its own backward through a shared, retained graph; the fix adds them."""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor, nn
from workload import FEATURES, Setup, Workload


class BackwardEach(Workload):
    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.stem = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.GELU())
        self.heads = nn.ModuleList(nn.Linear(FEATURES, 1) for _ in range(heads))

    def losses(self, batch: Any) -> list[Tensor]:
        shared = self.stem(batch[0])
        auxiliary = [head(shared).square().mean() for head in self.heads]
        return [nn.functional.mse_loss(self(shared), batch[1]), *auxiliary]

    def backward_of(self, losses: list[Tensor]) -> None:
        for loss in losses:
            self.manual_backward(loss, retain_graph=True)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.note_begin()
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.backward_of(self.losses(batch))
        optimizer.step()


class BackwardOnce(BackwardEach):
    def backward_of(self, losses: list[Tensor]) -> None:
        self.manual_backward(torch.stack(losses).sum())


def run(module: type[BackwardEach], knob: float) -> Setup:
    return Setup(module=partial(module, heads=round(knob)))


CAUSE = Cause(
    finding="retained-graph",
    fix="add the losses and call backward once, without retain_graph",
    faulty=partial(run, BackwardEach),
    fixed=partial(run, BackwardOnce),
    knob="auxiliary heads",
    guess=3,
    whole=True,
)
