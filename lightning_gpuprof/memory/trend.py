"""Estimates how fast memory grows from step to step, if it is sure that it grows.

The slope is the median over all pairs (Theil-Sen, with Sen's interval of 1968), and the test for a
trend is that of Mann and Kendall.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

MIN_WINDOWS = 8
MIN_Z = 3.3
"""The score of Mann and Kendall, in standard deviations, from which on a rise counts as steady.
Without any trend one run in a thousand reaches it, by the normal approximation."""
_INTERVAL_Z = 1.96
MIN_RISE_FRAC = 0.01
"""A smaller rise over the run, as a share of the memory in use, is ignored."""
LATE_FRAC = 0.25
"""The slope in the second half must be at least this share of the whole slope. A leak goes on,
whereas a cache is full at some time."""

Slopes = tuple[float, float, float]
"""The median slope, and the two ends of its 95 % interval."""
_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def growth_per_step(series: Sequence[tuple[int, int]]) -> Slopes | None:
    """Return by how many bytes memory grows per step, with a 95 % interval.

    `series` holds pairs (step, bytes after it). None if it is not sure that memory grows.

    >>> growth_per_step([(step, 100 + step) for step in range(0, 90, 10)])
    (1.0, 1.0, 1.0)
    """
    if len(series) < MIN_WINDOWS:
        return None
    steps, used = np.array(series, dtype=np.float64).T
    slopes = lasting_slope(steps, used)
    if slopes is None or slopes[0] * (steps[-1] - steps[0]) < MIN_RISE_FRAC * used[0]:
        return None
    return slopes


def theil_sen(x: Sequence[float] | _Floats, y: Sequence[float] | _Floats) -> Slopes:
    """Return the median slope of all pairs and its 95 % interval."""
    dx = _differences(np.asarray(x, dtype=np.float64))
    dy = _differences(np.asarray(y, dtype=np.float64))
    slopes = np.sort(dy[dx != 0] / dx[dx != 0])
    margin = _INTERVAL_Z * _deviation(len(x))
    count = len(slopes)
    low = max(0, int((count - margin) / 2))
    high = min(count - 1, int((count + margin) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def lasting_slope(x: _Floats, y: _Floats) -> Slopes | None:
    """Return the slope of a steady rise, with its interval.

    The result is None for noise, and for a series that levels off.
    """
    # Leaked memory is never released, so the minimum of every third is above that of the third
    # before it.
    minima = [third.min() for third in np.array_split(y, 3)]
    if not (rises(y) and minima[0] < minima[1] < minima[2]):
        return None
    slope, low, high = theil_sen(x, y)
    half = len(x) // 2
    late_slope, _, _ = theil_sen(x[half:], y[half:])
    return (slope, low, high) if low > 0 and late_slope >= LATE_FRAC * slope else None


def rises(values: _Floats) -> bool:
    """Return whether a series rises steadily, by the test of Mann and Kendall."""
    score = float(np.sign(_differences(values)).sum())
    return (score - 1) / _deviation(len(values)) >= MIN_Z


def _differences(values: _Floats) -> _Floats:
    """Return the differences between every value and every earlier value."""
    first, second = np.triu_indices(len(values), 1)
    return values[second] - values[first]


def _deviation(count: int) -> float:
    """Return the standard deviation of Kendall's score for `count` values without a trend."""
    return sqrt(count * (count - 1) * (2 * count + 5) / 18)
