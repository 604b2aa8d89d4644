"""How sure a difference of two means is, from the spread of the steps themselves."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Int64

RESAMPLES = 2_000
"""The 2.5 and 97.5 percentiles then vary by about a twentieth of the interval's width."""
MAX_BLOCKS = 400
MIN_BLOCKS = 8
SEED = 20_260_101
"""Fixed: the same two runs give the same answer."""


@dataclass(frozen=True)
class Interval:
    """A figure with the 95% interval that resampling gives it; all as fractions."""

    low: float
    middle: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the sign is sure."""
        return self.low > 0 or self.high < 0


def change_of_mean(base: Int64, new: Int64) -> Interval | None:
    """Return by how much the mean of `new` lies above that of `base`, as a fraction of it.

    Blocks of consecutive steps are drawn, not single steps: neighbours resemble each other
    (caches, clocks, checkpoints every n steps), and single draws would make the interval too
    narrow. None where either side has too few steps.

    >>> change_of_mean(np.full(40, 100), np.full(40, 80))
    Interval(low=-0.2, middle=-0.2, high=-0.2)
    """
    if min(len(base), len(new)) < MIN_BLOCKS or not base.sum():
        return None
    random = np.random.default_rng(SEED)
    middle = float(new.mean() / base.mean()) - 1
    ratios = _resampled(new, random) / _resampled(base, random) - 1
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Interval(round(float(low), 6), round(middle, 6), round(float(high), 6))


def _resampled(
    values: Int64, random: np.random.Generator
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the means of `RESAMPLES` draws of blocks."""
    length = max(1, round(len(values) ** (1 / 3)), -(-len(values) // MAX_BLOCKS))
    count = max(MIN_BLOCKS, len(values) // length)
    blocks = np.array([part.mean() for part in np.array_split(values, count)])
    drawn = random.integers(0, len(blocks), size=(RESAMPLES, len(blocks)))
    means: np.ndarray[tuple[int], np.dtype[np.float64]] = blocks[drawn].mean(axis=1)
    return means
