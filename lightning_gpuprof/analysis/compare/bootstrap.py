"""How sure a difference of two means is, from the variation of the steps themselves."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.chance import (
    MIN_BLOCKS,
    RESAMPLES,
    SEED,
    block_means,
    drawn_blocks,
)
from lightning_gpuprof.analysis.run.whole_fit import PLAIN, WholeFit

Means = np.ndarray[tuple[int], np.dtype[np.float64]]
"""The mean step of every resample."""

MAX_BLOCKS = 400
COMPILE_SPREAD = 0.1
"""The assumed standard deviation of torch.compile's time in equal runs, as a share of it.

A run that compiles its code once cannot show it."""


@dataclass(frozen=True)
class Interval:
    """A figure with the 95% interval that resampling gives it; all as fractions."""

    low: float
    middle: float
    high: float


def change_of_fit(base: WholeFit | None, new: WholeFit | None) -> Interval | None:
    """Return by how much the mean step of `new` lies above that of `base`, as a fraction of it.

    Blocks of consecutive steps are drawn (`chance.py`). Of every other kind of time, as many values
    are drawn as the fit has. None if either side has too few steps.
    """
    if base is None or new is None or not base.step_ns:
        return None
    counts = [sum(len(kind.values_ns) for kind in fit.steps.kinds) for fit in (base, new)]
    if min(counts) < MIN_BLOCKS:
        return None
    random = np.random.default_rng(SEED)
    ratios = _resampled_means(new, random) / _resampled_means(base, random) - 1
    low, high = np.percentile(ratios, (2.5, 97.5))
    middle = new.step_ns / base.step_ns - 1
    return Interval(round(float(low), 6), round(middle, 6), round(float(high), 6))


def _resampled_means(fit: WholeFit, random: np.random.Generator) -> Means:
    means: Means = np.zeros(RESAMPLES)
    for kind in fit.kinds:
        count = len(kind.values_ns)
        if count > MAX_BLOCKS or (kind.name == PLAIN and count >= MIN_BLOCKS):
            length = max(1, round(count ** (1 / 3)), -(-count // MAX_BLOCKS))
            count = max(MIN_BLOCKS, count // length)
        of_blocks = block_means(kind.values_ns[None, :], count)[0]
        means += kind.per_step * (drawn_blocks(count, random) @ of_blocks / count)
    if fit.compiling_ns:
        means += fit.compiling_ns * (1 + COMPILE_SPREAD * random.standard_normal(RESAMPLES))
    return means
