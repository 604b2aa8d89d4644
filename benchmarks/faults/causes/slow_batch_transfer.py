"""A batch-transfer hook computes spectra of raw signals; the fix computes them beforehand."""

from functools import partial
from typing import Any

import torch
from cause import Cause
from torch import Tensor
from workload import Rows, Setup, Workload

DISTINCT = 64


def loudness(signals: Tensor) -> Tensor:
    """Return the mean log spectrum of signals (n, samples) as (n, 1)."""
    return torch.fft.rfft(signals).abs().log1p().mean(dim=-1, keepdim=True)


class Signals(Rows):
    """Rows that name one of a few raw signals."""

    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), index % DISTINCT


class SpectraInHook(Workload):
    def __init__(self, *, samples: int) -> None:
        super().__init__()
        self.signals = torch.randn(DISTINCT, samples)

    def loudness_of(self, numbers: Tensor) -> Tensor:
        return loudness(self.signals[numbers])

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        inputs, targets, numbers = batch
        return inputs + 0.01 * self.loudness_of(numbers), targets


class SpectraOnce(SpectraInHook):
    def __init__(self, *, samples: int) -> None:
        super().__init__(samples=samples)
        self.loudness = loudness(self.signals)

    def loudness_of(self, numbers: Tensor) -> Tensor:
        return self.loudness[numbers]


def run(module: type[SpectraInHook], knob: float) -> Setup:
    return Setup(dataset=Signals, module=partial(module, samples=2 + round(knob)))


CAUSE = Cause(
    finding="slow-host-to-device-copy",
    fix="compute the spectra once, before training",
    faulty=partial(run, SpectraInHook),
    fixed=partial(run, SpectraOnce),
    knob="samples per signal",
    guess=1_000,
)
