"""A compiled head meets a new length again and again; the fix compiles it for any length.

The head is captured anew but no code is generated for it (`backend="eager"`): one compilation is
then as short against a run of 240 steps as inductor's is against a real one.
"""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor, nn
from workload import FEATURES, TIMED_STEPS, Setup, Workload

LONGEST = 512


class CompiledHead(Workload):
    """A new length every few steps, compiled for one length or for any.

    The recompile limit is raised, as its warning proposes; at 8, the default, torch gives up
    and runs the head uncompiled.
    """

    def __init__(self, *, lengths: float, dynamic: bool) -> None:
        super().__init__()
        torch._dynamo.config.recompile_limit = 10_000
        torch._dynamo.config.accumulated_recompile_limit = 10_000
        self.every = TIMED_STEPS / max(1.0, lengths)
        self.lift = nn.Linear(FEATURES, LONGEST)
        self.head = torch.compile(self.score, backend="eager", dynamic=dynamic)

    def score(self, series: Tensor) -> Tensor:
        return torch.tanh(series).square().mean()

    def loss(self, batch: Any) -> Tensor:
        length = 64 + int(self.global_step / self.every) % (LONGEST - 64)
        series = self.lift(batch[0])[:, :length]
        return super().loss(batch) + 1e-6 * self.head(series)


def run(dynamic: bool, knob: float) -> Setup:
    module = partial(CompiledHead, lengths=knob, dynamic=dynamic)
    return Setup(module=module, block_steps=TIMED_STEPS)


CAUSE = Cause(
    finding="recompilation",
    fix="torch.compile(..., dynamic=True), as the finding proposes",
    faulty=partial(run, False),
    fixed=partial(run, True),
    knob="new lengths per 180 steps",
    guess=6,
)
