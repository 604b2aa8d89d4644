"""The logger waits for its tracking server at each step; the fix logs every 60 steps.

The one fault here that sleeps: a real one waits for the network in just this way.
"""

import time
from functools import partial
from typing import Any

from cause import Cause
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from typing_extensions import override
from workload import Setup, Workload


class RemoteLogger(CSVLogger):
    def __init__(self, save_dir: str, *, round_trip_s: float) -> None:
        super().__init__(save_dir)
        self.round_trip_s = round_trip_s

    @override
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        time.sleep(self.round_trip_s)
        super().log_metrics(metrics, step)


class LogsLoss(Workload):
    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss)
        return loss


def run(every: int, knob: float) -> Setup:
    return Setup(
        module=LogsLoss,
        logger=partial(RemoteLogger, round_trip_s=knob / 1e6),
        trainer={"log_every_n_steps": every},
    ).every(every)


CAUSE = Cause(
    finding="slow-logging",
    fix="log_every_n_steps=60",
    faulty=partial(run, 1),
    fixed=partial(run, 60),
    settings={"log_every_n_steps": run},
    knob="round trip to the tracking server in us",
    guess=1_000,
)
