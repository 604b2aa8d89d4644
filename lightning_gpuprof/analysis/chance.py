"""Tests whether a mean differs from zero by more than chance explains.

Steps that follow one another resemble each other, because a machine's speed drifts and a data set
has easy and hard stretches. Therefore blocks of neighbouring steps are drawn, never single steps
(block bootstrap), bounds are widened as far as blocks still resemble each other, and what is
compared is paired: the same blocks are drawn for every row. The seed is fixed, so that the same
records always give the same answer.
"""

from math import isqrt, sqrt

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64

RESAMPLES = 2_000
"""With this many, the 2.5 and 97.5 percentiles vary by a twentieth of the interval's width."""
MIN_BLOCKS = 8
"""Fewer blocks do not show how much blocks differ."""
MAX_BLOCKS = 400
"""Enough blocks to show how much they differ; more would only take time."""
SIGN_STEPS, MOST_SIGNS = 5, 24
"""Blocks of so many steps, or so many blocks, whose means are all compared with zero."""
SEED = 20_260_101
LEVEL = 0.99
"""A mean that is called sure is so by chance in one of a hundred sets of rows at most."""
MOST_ALIKE = 0.8
"""A correlation of neighbouring blocks that is not reached by chance."""
_ROWS_AT_ONCE = 512
"""Limits the memory that resampling many rows takes."""


def sure_means(rows: Floats) -> Floats:
    """Return, for every row of values per step, what its mean exceeds surely.

    A bound above 0 says that the row's mean is positive by more than chance. All bounds hold
    together (`LEVEL`), so that the largest row may be chosen after looking at all. They are not
    finite if there are fewer than `MIN_BLOCKS` steps.

    Args:
        rows: Shape `(rows, steps)`, steps in their order.

    >>> sure_means(np.full((1, 100), 7.0)).tolist()
    [7.0]
    >>> by_turns = np.tile([-5.0, 5.0, 5.0, -5.0], 25)
    >>> bool(sure_means(by_turns[None, :])[0] > 0)
    False
    """
    count, steps = rows.shape
    if steps < MIN_BLOCKS or not count:
        return np.full(count, -np.inf)
    blocks = block_means(rows, max(MIN_BLOCKS, isqrt(steps)))
    bounds: Floats = rows.mean(axis=1) - _margins(blocks)
    if count <= (1 - LEVEL) * 2.0 ** (signs := min(MOST_SIGNS, steps // SIGN_STEPS)):
        # All blocks are above the true mean of some row in fewer than one of a hundred sets. A few
        # long blocks widen the margin, but make a mean that every block exceeds no less sure.
        bounds = np.maximum(bounds, block_means(rows, signs).min(axis=1))
    return bounds


def _margins(blocks: Floats) -> Floats:
    """Return by how much the mean of every row of blocks may be too large by chance."""
    count = blocks.shape[1]
    means = blocks.mean(axis=1, keepdims=True)
    spread = blocks.std(axis=1, keepdims=True) / sqrt(count)
    varying = np.flatnonzero(spread[:, 0] > 0)
    if not len(varying):
        return np.zeros(len(blocks))
    random = np.random.default_rng(SEED)
    counts = drawn_blocks(count, random)
    largest = np.full(RESAMPLES, -np.inf)
    for first in range(0, len(varying), _ROWS_AT_ONCE):
        chosen = varying[first : first + _ROWS_AT_ONCE]
        deviations = (blocks[chosen] - means[chosen]) @ counts.T / count
        np.maximum(largest, (deviations / spread[chosen]).max(axis=0), out=largest)
    margins: Floats = widening(blocks) * np.quantile(largest, LEVEL) * spread[:, 0]
    return margins


def widening(blocks: Floats) -> Floats:
    """Return by which factor the error of the mean of a row of blocks is larger than resamples say.

    Few blocks show badly how much blocks differ: the variance of Student's t is that much larger.
    And neighbouring blocks may be alike. Shape `(rows,)`, of at least `MIN_BLOCKS` blocks.
    """
    count = blocks.shape[1]
    deviations = blocks - blocks.mean(axis=1, keepdims=True)
    return sqrt(count / (count - 3)) * _by_resemblance(deviations)


def _by_resemblance(deviations: Floats) -> Floats:
    """Return by which factor the error of a mean is larger because neighbouring blocks are alike.

    For a series of first order it is `sqrt((1 + r) / (1 - r))` with the correlation `r` of
    neighbours, which few blocks show too small (Marriott and Pope 1954).
    """
    count = deviations.shape[1]
    variance = (deviations**2).sum(axis=1)
    products = (deviations[:, 1:] * deviations[:, :-1]).sum(axis=1)
    alike = np.divide(products, variance, out=np.zeros(len(variance)), where=variance > 0)
    alike = (alike + (1 + 3 * alike) / count).clip(0, MOST_ALIKE)
    factor: Floats = np.sqrt((1 + alike) / (1 - alike))
    return factor


def block_means(rows: Floats | Int64, count: int) -> Floats:
    """Return the means of so many blocks of neighbours in every row.

    >>> block_means(np.arange(6).reshape(2, 3), 2).tolist()
    [[0.5, 2.0], [3.5, 5.0]]
    """
    length, longer = divmod(rows.shape[1], count)
    lengths = np.full(count, length)
    lengths[:longer] += 1
    means: Floats = np.add.reduceat(rows, lengths.cumsum() - lengths, axis=1) / lengths
    return means


def block_count(values: int, *, neighbours: bool) -> int:
    """Return into how many blocks to divide so many values, one per step.

    Args:
        values: How many values there are.
        neighbours: Whether they are of steps that follow one another, which resemble each other.
    """
    if values <= MAX_BLOCKS and not (neighbours and values >= MIN_BLOCKS):
        return values
    length: int = max(1, round(values ** (1 / 3)), -(-values // MAX_BLOCKS))
    return max(MIN_BLOCKS, values // length)


def drawn_blocks(count: int, random: np.random.Generator) -> Int64:
    """Return how often every one of `count` blocks is drawn, in each of `RESAMPLES` draws."""
    drawn = random.integers(0, count, size=(RESAMPLES, count))
    offsets = count * np.arange(RESAMPLES)[:, None]
    counts = np.bincount((drawn + offsets).ravel(), minlength=RESAMPLES * count)
    return counts.reshape(RESAMPLES, count).astype(np.int64)
