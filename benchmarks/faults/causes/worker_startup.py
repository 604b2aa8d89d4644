"""Epochs are short and the data worker starts anew for each; the fix keeps it alive.

Where batches are made faster without a worker, that ends its starts too, and is as right an answer.
"""

import json
from functools import partial
from typing import Any

from cause import Cause
from workload import BLOCK_STEPS, Rows, Setup

TIMED, RECORDS = 360, 20_000


class Indexed(Rows):
    """A table whose worker parses a JSON index of the records before its first item."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        records = [{"id": number, "shard": f"{number % 97:05d}"} for number in range(RECORDS)]
        self.text = json.dumps(records)
        self.index: list[Any] | None = None

    def __getitem__(self, index: int) -> Any:
        if self.index is None:
            self.index = json.loads(self.text)
        return super().__getitem__(index)


def run(persistent: bool, knob: float) -> Setup:
    """Train in epochs of a whole number of steps that divides the timed ones, and so do blocks."""
    whole = [steps for steps in range(1, TIMED + 1) if TIMED % steps == 0]
    length = min(whole, key=lambda steps: abs(TIMED / steps - knob))
    block = min(steps for steps in whole if steps >= BLOCK_STEPS and steps % length == 0)
    return Setup(
        dataset=Indexed,
        loader={"num_workers": 1, "persistent_workers": persistent},
        epoch_steps=length,
        warm_steps=20,
        timed_steps=TIMED,
        block_steps=block,
    )


CAUSE = Cause(
    finding="worker-startup",
    fix="persistent_workers=True",
    faulty=partial(run, False),
    fixed=partial(run, True),
    knob="epochs in 360 steps",
    guess=3,
    whole=True,
    full_length=True,
    advised=partial(run, False),
    also=("data-wait",),
    advice_says=r"persistent_workers=True|num_workers=0",
)
