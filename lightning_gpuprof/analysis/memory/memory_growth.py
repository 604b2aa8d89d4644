"""Whether memory grows from step to step, and how fast: said only when it is sure.

The slope is the median of the slopes between all pairs of windows (Theil-Sen), which a few odd
windows do not move; its interval follows from the number of rising pairs (Sen 1968), and whether
there is a trend at all from the same number (Mann-Kendall).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory, Note

MIN_WINDOWS = 8
"""Fewer cannot reach the significance asked for by much."""
MIN_Z = 3.3
"""One chance in a thousand that a flat run rises so steadily, by the normal approximation."""
INTERVAL_Z = 1.96
MIN_RISE_FRAC = 0.01
"""A rise over the run below this share of the memory in use is left unsaid."""
LATE_FRAC = 0.25
"""At this share of the whole slope it still rises in the second half: a cache that fills stops."""
MAX_WINDOWS = 1000
"""More are thinned out: pairs grow with the square."""
RSS_NOTE = "rss_bytes"
"""Note of this name: the training process's resident memory at a window's end."""

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class MemoryGrowth:
    """Memory in use between steps rises steadily.

    Read at the end of each window of steps, when activations are gone: what the device's
    allocator has given out or, without a GPU, the resident memory of the training process.
    """

    of_device: bool
    bytes_per_step: float
    low_bytes_per_step: float
    high_bytes_per_step: float
    """Between these with 95 % confidence."""
    first_step: int
    last_step: int
    last_bytes: int
    windows: int
    steps_left: int | None
    """Until the device is full at this pace, from the last peak; None where its size is unknown."""

    @property
    def first_bytes(self) -> float:
        """What was in use at the first step, by the pace."""
        return self.last_bytes - self.bytes_per_step * (self.last_step - self.first_step)


def memory_growth(session: Session) -> tuple[MemoryGrowth | None, bool]:
    """Return how a session's memory grows, and whether it was read often enough to say.

    The first window is left out: optimizer state, workspaces and caches come to be in it.
    """
    records = [record for record in session.all(Memory) if record.total_bytes > 0][1:]
    if not records:
        notes = [note for note in session.all(Note) if note.name == RSS_NOTE][1:]
        series = [(note.step, note.value) for note in notes if isinstance(note.value, int)]
        return _growth(series, room_bytes=None, of_device=False)
    last = records[-1]
    series = [(record.step, record.allocated_bytes) for record in records]
    room = last.total_bytes - last.peak_reserved_bytes
    return _growth(series, room_bytes=room, of_device=True)


def growth_per_step(series: Sequence[tuple[int, int]]) -> tuple[float, float, float] | None:
    """Return by how many bytes memory grows per step, and the 95 % interval; None if not surely.

    Args:
        series: Steps, and the bytes in use behind them.

    >>> growth_per_step([(step, 100 + step) for step in range(0, 90, 10)])
    (1.0, 1.0, 1.0)
    >>> growth_per_step([(step, 100) for step in range(9)]) is None
    True
    """
    if len(series) < MIN_WINDOWS:
        return None
    steps = np.array([step for step, _ in series], dtype=np.float64)
    used = np.array([size for _, size in series], dtype=np.float64)
    slopes = lasting_slope(steps, used)
    if slopes is None or slopes[0] * (steps[-1] - steps[0]) < MIN_RISE_FRAC * used[0]:
        return None
    return slopes


def _growth(
    series: list[tuple[int, int]], *, room_bytes: int | None, of_device: bool
) -> tuple[MemoryGrowth | None, bool]:
    series = series[:: -(-len(series) // MAX_WINDOWS) or 1]
    slopes = growth_per_step(series)
    if slopes is None:
        return None, len(series) >= MIN_WINDOWS
    slope, low, high = slopes
    growth = MemoryGrowth(
        of_device=of_device,
        bytes_per_step=slope,
        low_bytes_per_step=low,
        high_bytes_per_step=high,
        first_step=series[0][0],
        last_step=series[-1][0],
        last_bytes=series[-1][1],
        windows=len(series),
        steps_left=None if room_bytes is None else max(0, int(room_bytes / slope)),
    )
    return growth, True


def theil_sen(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Return the median slope of all pairs and its 95 % interval.

    >>> theil_sen([0, 1, 2, 3], [5, 7, 9, 11])
    (2.0, 2.0, 2.0)
    """
    at, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    first, second = np.triu_indices(len(at), 1)
    apart = at[second] != at[first]
    first, second = first[apart], second[apart]
    slopes = np.sort((values[second] - values[first]) / (at[second] - at[first]))
    margin = INTERVAL_Z * _deviation(len(at))
    count = len(slopes)
    low = max(0, int((count - margin) / 2))
    high = min(count - 1, int((count + margin) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def lasting_slope(at: _Floats, values: _Floats) -> tuple[float, float, float] | None:
    """Return the slope of a steady rise and its interval; None of noise, and of what settles.

    >>> lasting_slope(np.arange(9.0), 3 * np.arange(9.0))
    (3.0, 3.0, 3.0)
    >>> lasting_slope(np.arange(20.0), np.arange(20.0).clip(max=10)) is None
    True
    """
    # What leaks is never given back: the floor of each third lies above the one before.
    floors = [part.min() for part in np.array_split(values, 3)]
    if not (rises(values) and floors[0] < floors[1] < floors[2]):
        return None
    slope, low, high = theil_sen(at.tolist(), values.tolist())
    half = len(at) // 2
    late, _, _ = theil_sen(at[half:].tolist(), values[half:].tolist())
    return (slope, low, high) if low > 0 and late >= LATE_FRAC * slope else None


def rises(values: _Floats) -> bool:
    """Tell whether a series rises all along, which chance does once in a thousand (Mann-Kendall).

    >>> rises(np.arange(9.0)), rises(np.arange(9.0) % 3)
    (True, False)
    """
    first, second = np.triu_indices(len(values), 1)
    score = float(np.sign(values[second] - values[first]).sum())
    return (score - 1) / _deviation(len(values)) >= MIN_Z


def _deviation(count: int) -> float:
    """Return the standard deviation of Kendall's score of `count` values without a trend."""
    return sqrt(count * (count - 1) * (2 * count + 5) / 18)
