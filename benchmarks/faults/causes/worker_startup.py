"""The data worker starts anew each epoch and reads an index first; the fix keeps it alive."""

import json
from functools import partial
from typing import Any

from cause import Cause
from workload import Rows, Setup

EPOCH_STEPS = 60


class Indexed(Rows):
    """A table whose worker parses a JSON index of the records before its first item."""

    def __init__(self, count: int, *, entries: int) -> None:
        super().__init__(count)
        records = [{"id": number, "shard": f"{number % 97:05d}"} for number in range(entries)]
        self.text = json.dumps(records)
        self.index: list[Any] | None = None

    def __getitem__(self, index: int) -> Any:
        if self.index is None:
            self.index = json.loads(self.text)
        return super().__getitem__(index)


def run(persistent: bool, knob: float) -> Setup:
    return Setup(
        dataset=partial(Indexed, entries=round(knob)),
        loader={"num_workers": 1, "persistent_workers": persistent},
        epoch_steps=EPOCH_STEPS,
    )


CAUSE = Cause(
    name="worker_startup",
    finding="worker-startup",
    fix="persistent_workers=True",
    faulty=partial(run, False),
    fixed=partial(run, True),
    knob="entries of the index that a worker reads first",
    guess=30_000,
)
