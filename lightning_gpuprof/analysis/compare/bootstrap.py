"""How sure a difference of two means is, from the spread of the steps themselves."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.whole_fit import PLAIN, WholeFit

Draws = np.ndarray[tuple[int], np.dtype[np.float64]]

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


def change_of_fit(base: WholeFit | None, new: WholeFit | None) -> Interval | None:
    """Return by how much the mean step of `new` lies above that of `base`, as a fraction of it.

    Blocks of consecutive steps are drawn, since neighbours resemble each other and single draws
    would make the interval too narrow; of each other kind as many are drawn as there are. None
    where either side has too few steps.
    """
    if base is None or new is None or not base.step_ns:
        return None
    if min(sum(len(one.values_ns) for one in fit.steps.kinds) for fit in (base, new)) < MIN_BLOCKS:
        return None
    random = np.random.default_rng(SEED)
    ratios = _drawn(new, random) / _drawn(base, random) - 1
    low, high = np.percentile(ratios, (2.5, 97.5))
    middle = new.step_ns / base.step_ns - 1
    return Interval(round(float(low), 6), round(middle, 6), round(float(high), 6))


def _drawn(fit: WholeFit, random: np.random.Generator) -> Draws:
    draws: Draws = np.zeros(RESAMPLES)
    for one in fit.kinds:
        count = len(one.values_ns)
        if count > MAX_BLOCKS or (one.name == PLAIN and count >= MIN_BLOCKS):
            length = max(1, round(count ** (1 / 3)), -(-count // MAX_BLOCKS))
            count = max(MIN_BLOCKS, count // length)
        blocks = np.array([part.mean() for part in np.array_split(one.values_ns, count)])
        drawn = random.integers(0, count, size=(RESAMPLES, count))
        draws += one.per_step * blocks[drawn].mean(axis=1)
    return draws
