"""Validation runs every 10 steps, in small batches.

The fix runs it every 60, or as the report proposes: less often, or in larger batches.
"""

from functools import partial

from cause import Cause
from workload import Rows, Setup

VAL_BATCH, OFTEN = 8, 10


def run(every: int, knob: float, batch: int = VAL_BATCH) -> Setup:
    return Setup(
        val_dataset=partial(Rows, VAL_BATCH * max(1, round(knob))),
        val_loader={"batch_size": batch},
        trainer={"val_check_interval": every},
    ).every(every)


def larger(batch: int, knob: float) -> Setup:
    return run(OFTEN, knob, batch)


CAUSE = Cause(
    finding="frequent-validation",
    fix="val_check_interval=60 instead of 10",
    faulty=partial(run, OFTEN),
    fixed=partial(run, 60),
    settings={"val_check_interval": run, "batch_size": larger},
    knob="batches of 8 per validation",
    guess=8,
    whole=True,
)
