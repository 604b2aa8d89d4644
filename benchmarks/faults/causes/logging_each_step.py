"""Many values are written to TensorBoard each step; the fix writes them every 60 steps.

Where the report proposes the Trainer's setting alone, which leaves the calls of `log_dict`, that
is the fix which is measured.
"""

from functools import partial
from typing import Any

from cause import Cause
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor
from workload import Setup, Workload


class LogsMuch(Workload):
    def __init__(self, *, values: int) -> None:
        super().__init__()
        self.values = values

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        loss = super().training_step(batch, batch_idx)
        means = batch[1].mean(dim=0)
        self.log_dict({f"target/{n}": means[n % len(means)] for n in range(self.values)})
        return loss


class LogsSeldom(LogsMuch):
    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        if batch_idx % 60 == 59:
            return super().training_step(batch, batch_idx)
        return Workload.training_step(self, batch, batch_idx)


def run(module: type[LogsMuch], every: int, knob: float) -> Setup:
    return Setup(
        module=partial(module, values=round(knob)),
        logger=TensorBoardLogger,
        trainer={"log_every_n_steps": every},
    ).every(every)


CAUSE = Cause(
    finding="slow-logging",
    fix="call self.log_dict and the logger every 60 steps",
    faulty=partial(run, LogsMuch, 1),
    fixed=partial(run, LogsSeldom, 60),
    settings={"log_every_n_steps": partial(run, LogsMuch)},
    knob="values logged each step",
    guess=6,
    whole=True,
)
