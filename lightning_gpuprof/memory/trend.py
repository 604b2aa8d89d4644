"""Tells whether memory grows from step to step, and how fast; answers only when it is sure.

The slope is the median of all pairs' (Theil-Sen, interval after Sen 1968); the test for a trend is
Mann-Kendall's.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

MIN_WINDOWS = 8
MIN_Z = 3.3
"""A flat run rises so steadily once in a thousand times, by the normal approximation."""
_INTERVAL_Z = 1.96
MIN_RISE_FRAC = 0.01
"""A smaller rise over the run, as a share of the memory in use, is ignored."""
LATE_FRAC = 0.25
"""A leak rises in the second half too, at this share of the slope; a cache that fills stops."""

Slopes = tuple[float, float, float]
"""The median slope and its 95 % interval."""
_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def growth_per_step(series: Sequence[tuple[int, int]]) -> Slopes | None:
    """Return by how many bytes memory grows per step, and the 95 % interval; None if not surely.

    >>> growth_per_step([(step, 100 + step) for step in range(0, 90, 10)])  # bytes after each
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
    at, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    along, up = _differences(at), _differences(values)
    slopes = np.sort(up[along != 0] / along[along != 0])
    margin = _INTERVAL_Z * _deviation(len(at))
    count = len(slopes)
    low = max(0, int((count - margin) / 2))
    high = min(count - 1, int((count + margin) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def lasting_slope(at: _Floats, values: _Floats) -> Slopes | None:
    """Return the slope of a steady rise and its interval; None for noise and for what settles."""
    # Leaked memory is never given back: the floor of each third lies above the one before.
    floors = [part.min() for part in np.array_split(values, 3)]
    if not (rises(values) and floors[0] < floors[1] < floors[2]):
        return None
    slope, low, high = theil_sen(at, values)
    half = len(at) // 2
    late, _, _ = theil_sen(at[half:], values[half:])
    return (slope, low, high) if low > 0 and late >= LATE_FRAC * slope else None


def rises(values: _Floats) -> bool:
    """Tell whether a series rises all along: by chance once in a thousand (Mann-Kendall)."""
    score = float(np.sign(_differences(values)).sum())
    return (score - 1) / _deviation(len(values)) >= MIN_Z


def _differences(values: _Floats) -> _Floats:
    """Return by how much each value is above each earlier one."""
    first, second = np.triu_indices(len(values), 1)
    return values[second] - values[first]


def _deviation(count: int) -> float:
    """Return the standard deviation of Kendall's score of `count` values without a trend."""
    return sqrt(count * (count - 1) * (2 * count + 5) / 18)
