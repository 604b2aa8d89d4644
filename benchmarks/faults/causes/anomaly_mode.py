"""Anomaly detection was left on after debugging; the fix turns it off."""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor, nn
from workload import FEATURES, Setup, Workload


class DeepTail(Workload):
    """The workload with a chain of small ops, each of which anomaly detection traces."""

    def __init__(self, *, links: int) -> None:
        super().__init__()
        self.links = links
        self.start = nn.Linear(FEATURES, 1)

    def loss(self, batch: Any) -> Tensor:
        state = self.start(batch[0])
        for _ in range(self.links):
            state = torch.tanh(state)
        return super().loss(batch) + 1e-6 * state.mean()


def run(detect: bool, knob: float) -> Setup:
    return Setup(module=partial(DeepTail, links=round(knob)), trainer={"detect_anomaly": detect})


CAUSE = Cause(
    finding="anomaly-detection-on",
    fix="detect_anomaly=False",
    faulty=partial(run, True),
    fixed=partial(run, False),
    knob="small ops beside the network's",
    guess=4,
    whole=True,
)
