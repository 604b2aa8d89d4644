"""The accuracy is counted with one `.item()` per prediction; the fix counts on the tensor.

On a CPU nothing waits in `.item()`: what it costs is the call, so many small calls are as right
a name for it here.
"""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor
from workload import Setup, Workload


class CountsByItem(Workload):
    def __init__(self, *, checked: int) -> None:
        super().__init__()
        self.checked, self.right = checked, 0.0

    def count(self, predictions: Tensor, targets: Tensor) -> float | Tensor:
        right = 0.0
        for number in range(self.checked):
            close = (predictions[number] - targets[number]).abs() < 0.1
            right += close.float().item()
        return right

    def loss(self, batch: Any) -> Tensor:
        inputs, targets = batch
        outputs = self(inputs)
        # More checks than outputs are checks of several heads; here the same ones again.
        repeats = -(-self.checked // outputs.numel())
        predictions = outputs.detach().flatten().repeat(repeats)
        self.right = self.right + self.count(predictions, targets.flatten().repeat(repeats))
        return torch.nn.functional.mse_loss(outputs, targets)


class CountsOnTensor(CountsByItem):
    def count(self, predictions: Tensor, targets: Tensor) -> float | Tensor:
        close = (predictions - targets)[: self.checked].abs() < 0.1
        return close.float().sum()


def run(module: type[CountsByItem], knob: float) -> Setup:
    return Setup(module=partial(module, checked=round(knob)))


CAUSE = Cause(
    finding="host-sync",
    also=("small-kernels",),
    fix="compare and sum whole tensors, and read the sum once at the end",
    faulty=partial(run, CountsByItem),
    fixed=partial(run, CountsOnTensor),
    knob="predictions checked per step",
    guess=80,
    whole=True,
)
