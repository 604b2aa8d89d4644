"""Four workers hand over batches of many small tensors that take no work to make.

Each tensor crosses the process border through a file descriptor of its own, which the training
process has to fetch; the fix is `num_workers=0`. More workers would make it worse, so the advice
must not be to add some.
"""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor
from workload import BATCH, Rows, Setup, Workload


class Frames(Rows):
    """Whole batches (the loader's `batch_size` is None), with many small tensors in each."""

    def __init__(self, count: int, *, fields: int) -> None:
        super().__init__(count * BATCH)
        self.batches = count
        self.fields = torch.randn(fields, count, 8)

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        rows = slice(index * BATCH, (index + 1) * BATCH)
        fields = [column[index].clone() for column in self.fields]
        return self.inputs[rows].clone(), self.targets[rows].clone(), fields


class FieldsModel(Workload):
    def loss(self, batch: Any) -> Tensor:
        inputs, targets, _ = batch
        return super().loss((inputs, targets))


def run(workers: int, knob: float) -> Setup:
    return Setup(
        module=FieldsModel,
        dataset=partial(Frames, fields=round(knob)),
        loader={
            "batch_size": None,
            "num_workers": workers,
            "persistent_workers": workers > 0,
        },
    )


CAUSE = Cause(
    finding="data-wait",
    fix="num_workers=0: making the batch is cheaper than sending it",
    faulty=partial(run, 4),
    fixed=partial(run, 0),
    advised=partial(run, 4),
    knob="small tensors per batch",
    guess=10,
    whole=True,
    advice_says=r"(?i)num_workers\s*=\s*[01]\b|fewer|lower|without workers",
)
