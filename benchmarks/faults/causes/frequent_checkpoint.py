"""A checkpoint is written every 10 steps; the fix one every 60, or as proposed."""

from functools import partial

import torch
from cause import Cause
from lightning.pytorch.callbacks import ModelCheckpoint
from workload import Setup, Workload


class WithTable(Workload):
    """The workload with a frozen embedding table, which is saved but costs no step time."""

    def __init__(self, *, entries: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(entries, 64))


def run(every: int, knob: float) -> Setup:
    return Setup(
        module=partial(WithTable, entries=round(knob)),
        trainer={"enable_checkpointing": True},
        callbacks=(partial(ModelCheckpoint, every_n_train_steps=every),),
    ).every(every)


CAUSE = Cause(
    finding="slow-checkpoint",
    fix="every_n_train_steps=60 instead of 10",
    faulty=partial(run, 10),
    fixed=partial(run, 60),
    settings={"every_n_train_steps": run},
    knob="entries (of 256 bytes) of the table saved with the model",
    guess=10_000,
)
