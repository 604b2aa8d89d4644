"""Samples per second against batch size, and the size from which on more buys little."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED

MIN_GAIN = 0.05
"""More memory that buys less than this share of throughput is not worth its risks."""
MIN_STEPS = 10
"""Sizes of fewer steps (an epoch's last batch) are left out."""


@dataclass(frozen=True)
class SizeRate:
    """How fast one batch size trained: by the median step."""

    samples: int
    samples_per_s: float
    steps: int


@dataclass(frozen=True)
class Knee:
    """The smallest batch size that trains nearly as fast as any larger one.

    Attributes:
        samples: That size.
        reached: False where it is the largest that was run: a larger one may be faster still.
        left_frac: What the fastest larger size gains over it; 0.0 where none is faster.
    """

    samples: int
    reached: bool
    left_frac: float


def size_rates(session: Session, steady: Mask, *, by_device: bool = False) -> tuple[SizeRate, ...]:
    """Return the throughput of each batch size that ran often enough.

    `by_device`: the device holds the host back, so its clock counts, over the marked steps.
    """
    samples = session.columns.get("samples")
    if samples is None or not session.steps:
        return ()
    dur = session.columns["device_dur" if by_device else "dur_ns"]
    steady = steady & (dur != NOT_MEASURED)
    samples, dur = samples[steady], dur[steady]
    rates = []
    for size in np.unique(samples[samples > 0]):
        of_size = dur[samples == size]
        if len(of_size) >= MIN_STEPS:
            per_s = float(size) * 1e9 / float(np.median(of_size))
            rates.append(SizeRate(int(size), per_s, len(of_size)))
    return tuple(rates)


def mean_samples(session: Session, steady: Mask) -> float | None:
    """Return the mean samples per steady step; None where some of them did not say."""
    samples = session.columns.get("samples")
    if samples is None or not steady.any() or (samples[steady] <= 0).any():
        return None
    return float(samples[steady].mean())


def knee(rates: Sequence[SizeRate] | Mapping[int, float]) -> Knee | None:
    """Return the size after which more memory buys less than `MIN_GAIN`; None for one size.

    >>> knee({8: 100.0, 16: 190.0, 32: 240.0, 64: 240.0})
    Knee(samples=32, reached=True, left_frac=0.0)
    >>> knee({8: 100.0, 16: 190.0})
    Knee(samples=16, reached=False, left_frac=0.0)
    """
    if not isinstance(rates, Mapping):
        rates = {rate.samples: rate.samples_per_s for rate in rates}
    sizes = sorted(rates)
    if len(sizes) < 2:
        return None
    for index, size in enumerate(sizes):
        fastest = max((rates[larger] for larger in sizes[index + 1 :]), default=0.0)
        if fastest <= (1 + MIN_GAIN) * rates[size]:
            left = max(0.0, fastest / rates[size] - 1)
            return Knee(size, reached=size != sizes[-1], left_frac=left)
    raise AssertionError("the largest size has none above it")
