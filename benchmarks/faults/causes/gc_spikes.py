"""`gc.collect()` runs every 60 steps, as a cure for memory; the fix leaves it out.

Its pause grows with the live objects, here a table of records in plain Python objects, as
vocabularies and replay buffers are.
"""

import gc
from functools import partial
from typing import Any

from cause import Cause
from torch import Tensor
from workload import Setup, Workload

EVERY = 60


class Collects(Workload):
    def __init__(self, *, records: int, collect: bool) -> None:
        super().__init__()
        self.collect = collect
        self.records = [{"id": number, "tags": [number]} for number in range(records)]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        loss = super().training_step(batch, batch_idx)
        if self.collect and batch_idx % EVERY == EVERY // 2:
            gc.collect()
        return loss


def run(collect: bool, knob: float) -> Setup:
    return Setup(module=partial(Collects, records=round(knob), collect=collect))


CAUSE = Cause(
    finding="step-time-jitter",
    fix="no gc.collect() in the loop",
    faulty=partial(run, True),
    fixed=partial(run, False),
    knob="live records",
    guess=100_000,
)
