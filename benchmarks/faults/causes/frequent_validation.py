"""Validation runs every 10 steps; the fix runs it every 60, or as the report proposes."""

from functools import partial

from cause import Cause
from workload import Rows, Setup

VAL_BATCH = 8


def run(every: int, knob: float) -> Setup:
    return Setup(
        val_dataset=partial(Rows, VAL_BATCH * max(1, round(knob))),
        val_loader={"batch_size": VAL_BATCH},
        trainer={"val_check_interval": every},
    )


CAUSE = Cause(
    name="frequent_validation",
    finding="frequent-validation",
    fix="val_check_interval=60 instead of 10",
    faulty=partial(run, 10),
    fixed=partial(run, 60),
    setting=("val_check_interval", run),
    knob="batches of 8 per validation",
    guess=8,
    whole=True,
)
