"""AdamW updates many small parameters one by one; the fix is `fused=True`."""

from functools import partial

import torch
from cause import Cause
from workload import ManyParameters, Setup


class Unfused(ManyParameters):
    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3, foreach=False)


def run(module: type[ManyParameters], knob: float) -> Setup:
    return Setup(module=partial(module, extra=round(knob)))


CAUSE = Cause(
    finding="unfused-optimizer",
    fix="AdamW(fused=True)",
    faulty=partial(run, Unfused),
    fixed=partial(run, ManyParameters),
    knob="small parameters beside the network's",
    guess=30,
    whole=True,
)
