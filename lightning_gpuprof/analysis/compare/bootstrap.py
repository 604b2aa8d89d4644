"""How sure a difference of two means is, from the variation of the steps themselves."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.whole_fit import PLAIN, WholeFit

Means = np.ndarray[tuple[int], np.dtype[np.float64]]
"""The mean step of every resample."""

RESAMPLES = 2_000
"""With this many, the 2.5 and 97.5 percentiles vary by a twentieth of the interval's width."""
MAX_BLOCKS = 400
MIN_BLOCKS = 8
SEED = 20_260_101
"""A fixed seed, so that the same two runs always give the same answer."""


@dataclass(frozen=True)
class Interval:
    """A figure with the 95% interval that resampling gives it; all as fractions."""

    low: float
    middle: float
    high: float


def change_of_fit(base: WholeFit | None, new: WholeFit | None) -> Interval | None:
    """Return by how much the mean step of `new` lies above that of `base`, as a fraction of it.

    Blocks of consecutive steps are drawn, because neighbours resemble each other and drawing
    single steps would make the interval too narrow. Of every other kind of time, as many values
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
        block_means = np.array([block.mean() for block in np.array_split(kind.values_ns, count)])
        drawn = random.integers(0, count, size=(RESAMPLES, count))
        means += kind.per_step * block_means[drawn].mean(axis=1)
    return means
