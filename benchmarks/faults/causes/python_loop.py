"""A decaying sum over time is a Python loop of small ops; the fix is one matrix product.

On a CPU the cost is that of calling many small operators, so `host-bound` is as right a name.
"""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor, nn
from workload import FEATURES, Setup, Workload

DECAY = 0.98


class DecayLoop(Workload):
    def __init__(self, *, steps: int) -> None:
        super().__init__()
        self.drive = nn.Linear(FEATURES, steps)

    def decayed(self, drive: Tensor) -> Tensor:
        state = torch.zeros_like(drive[:, 0])
        for moment in range(drive.shape[1]):
            state = DECAY * state + drive[:, moment]
        return state

    def loss(self, batch: Any) -> Tensor:
        return super().loss(batch) + 1e-6 * self.decayed(self.drive(batch[0])).square().mean()


class DecayProduct(DecayLoop):
    def decayed(self, drive: Tensor) -> Tensor:
        return drive @ DECAY ** torch.arange(drive.shape[1] - 1, -1, -1.0)


def run(module: type[DecayLoop], knob: float) -> Setup:
    return Setup(module=partial(module, steps=round(knob)))


CAUSE = Cause(
    finding="small-kernels",
    also=("host-bound",),
    fix="one matrix product with the powers of the decay",
    faulty=partial(run, DecayLoop),
    fixed=partial(run, DecayProduct),
    knob="moments in the loop",
    guess=30,
    whole=True,
)
