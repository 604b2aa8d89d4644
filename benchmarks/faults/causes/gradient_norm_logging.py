"""The gradient norm of every parameter is logged each step; the fix does so every 60 steps."""

from functools import partial

import torch
from cause import Cause
from lightning.pytorch.utilities import grad_norm
from workload import ManyParameters, Setup


class LogsNorms(ManyParameters):
    def __init__(self, *, extra: int, every: int) -> None:
        super().__init__(extra=extra)
        self.every = every

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.global_step % self.every == self.every - 1:
            self.log_dict(grad_norm(self, norm_type=2))


def run(every: int, knob: float) -> Setup:
    return Setup(module=partial(LogsNorms, extra=round(knob), every=every))


CAUSE = Cause(
    finding="slow-logging",
    fix="take and log the norms every 60 steps",
    faulty=partial(run, 1),
    fixed=partial(run, 60),
    knob="small parameters beside the network's",
    guess=4,
    whole=True,
)
