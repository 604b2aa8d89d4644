"""Finds the step from which on a series lies higher, or rises.

The series is cut into blocks, and a block is represented by its median, so that single slow steps
do not count. Two shapes are fitted to the medians: a level that is higher from one block to
another, or to the end (as in circular binary segmentation, Olshen 2004), and a rise that begins at
a block and lasts to the end.

A shape counts if its height is large compared with the noise of blocks and with how the series
wanders before and since: a machine whose speed drifts has differences between blocks far apart that
the noise of neighbours does not show.
"""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64

MOST_BLOCKS = 120
BLOCK_STEPS = 8
MIN_BEFORE, MIN_SINCE = 6, 5
"""Blocks before a change and since. Fewer do not show how blocks differ without it."""
MIN_Z = 7.0
"""The height in standard errors. Of all places at which a change may be, the largest is chosen."""
MIN_WANDER = 2.0
"""The height as a multiple of how much the series wanders before the change, and since."""
MIN_APART = 0.8
"""The share of blocks since the change that exceed nine tenths of those before."""
_PIECES = 4
_MAD = 1.4826
"""The standard deviation of normal noise as a multiple of its median absolute deviation."""
_REACH = 3
"""The first and the last step are looked for within so many blocks of those of the change."""
_CLEAR, _CLEAR_FRAC = 8.0, 0.1
"""A rise is clear once blocks exceed the level before by so many standard deviations, and by this
share of its height."""
HIGH_END = 0.5
"""The usual block at the end of a rise has this share of its height: single blocks do not."""
AS_GOOD = 1.3
"""A rise from the start, which is no slow-down since some step, may fit worse by this factor."""
_BACK = 0.5
"""A slow-down has ended if this share of it, or more, has gone again."""


@dataclass(frozen=True)
class Change:
    """A change of a series, in blocks.

    Args:
        since: The first block of the change.
        until: The block after its last; the number of blocks if it lasts.
        before: The level before.
        height: By how much the level is higher; of a rise, its last block.
        rises: Whether it is a rise.
        fit: The share of the variance between blocks that the shape explains.
    """

    since: int
    until: int
    before: float
    height: float
    rises: bool
    fit: float

    def shape(self, blocks: int) -> Floats:
        """Return the shape, from 0 before the change to 1."""
        place = np.arange(blocks, dtype=np.float64)
        if self.rises:
            return (place - self.since + 1).clip(min=0) / max(1, blocks - self.since)
        return ((place >= self.since) & (place < self.until)).astype(np.float64)


@dataclass(frozen=True)
class Blocks:
    """Blocks of neighbouring steps, all of the same length. Some first steps are in no block.

    >>> blocks = Blocks.of(1_234)
    >>> blocks.count, blocks.length, blocks.begin(0), blocks.begin(blocks.count)
    (120, 10, 34, 1234)
    """

    steps: int
    length: int

    @classmethod
    def of(cls, steps: int) -> "Blocks":
        """Return the blocks of so many steps."""
        return cls(steps, max(BLOCK_STEPS, steps // MOST_BLOCKS))

    @property
    def count(self) -> int:
        """How many there are."""
        return min(MOST_BLOCKS, self.steps // self.length)

    def begin(self, number: int) -> int:
        """Return the index of the first step of a block."""
        return self.steps - self.length * (self.count - min(max(number, 0), self.count))

    def around(self, number: int, *, low: int = 0, high: int = MOST_BLOCKS) -> slice:
        """Return the indices of the steps some blocks around the first step of a block.

        Args:
            number: The block.
            low: The first block that counts.
            high: The block after the last one that counts.
        """
        return slice(self.begin(max(low, number - _REACH)), self.begin(min(high, number + _REACH)))

    def medians(self, values: Floats) -> Floats:
        """Return the median of each block, shape `(count,)`."""
        if not self.count:
            return np.zeros(0)
        middle = self.length // 2
        blocks = values[self.begin(0) :].reshape(self.count, self.length)
        medians: Floats = np.partition(blocks, middle, axis=1)[:, middle]
        return medians

    def spread(self, series: Floats) -> Floats:
        """Return for every step the value of its block; for the first steps that of the first."""
        repeated = np.repeat(series, self.length)
        return np.concatenate([np.full(self.begin(0), series[0]), repeated])


def noise_of(deviations: Floats) -> float:
    """Return the standard deviation of the noise in deviations, by their median: outliers are none.

    >>> round(noise_of(np.array([-1.0, 1.0, 1.0, -1.0, 500.0])), 1)
    1.5
    """
    return _MAD * float(np.median(np.abs(deviations)))


def find_change(medians: Floats, offset: float | None = None) -> Change | None:
    """Return the change to a higher level, or the rise, of a series of blocks; None if unsure.

    With `offset`, a level also counts that is sure in the logarithms of the series and `offset`.

    >>> noise = np.tile([0.0, 1.0, -1.0, 0.5], 20)
    >>> change = find_change(100 + noise + 9 * (np.arange(80) >= 30))
    >>> change.since, change.until, round(change.height), change.rises
    (30, 80, 9, False)
    >>> find_change(100 + noise + (np.arange(80) - 30).clip(min=0)).rises
    True
    >>> find_change(100 + noise) is None
    True
    """
    if len(medians) < MIN_BEFORE + MIN_SINCE:
        return None
    changes = [change for change in (best_level(medians), _rise(medians)) if change is not None]
    sure = [change for change in changes if is_sure(change, medians)]
    if offset is not None and (level := _level_of_logs(medians, offset)) is not None:
        sure.append(level)
    lasts = len(medians)
    return max(sure, key=lambda change: (change.until == lasts, change.fit), default=None)


def best_level(medians: Floats) -> Change | None:
    """Return the level above all other blocks that fits best, whether or not it is sure."""
    count = len(medians)
    deviations = medians - medians.mean()
    whole = float(deviations @ deviations)
    if not whole:
        return None
    sums = np.concatenate([[0.0], np.cumsum(deviations)])
    since, until = np.triu_indices(count + 1, MIN_SINCE)
    valid = since >= MIN_BEFORE
    since, until = since[valid], until[valid]
    inside = (until - since).astype(np.float64)
    above = sums[until] - sums[since]
    gains = np.where(above > 0, above**2 * count / (inside * (count - inside)), 0.0)
    lasting = np.flatnonzero(until == count)
    best = int(lasting[gains[lasting].argmax()])
    ended = int(gains.argmax())
    if until[ended] < count and _has_ended(medians, int(since[ended]), int(until[ended])):
        best = ended
    begin, end = int(since[best]), int(until[best])
    before = float(np.median(medians[:begin]))
    height = float(np.median(medians[begin:end])) - before
    return Change(begin, end, before, height, False, float(gains[best]) / whole)


def _level_of_logs(medians: Floats, offset: float) -> Change | None:
    """Return the level that is higher by a factor: what takes longer varies more."""
    logs: Floats = np.log(medians.clip(min=0) + offset)
    level = best_level(logs)
    if level is None or not is_sure(level, logs):
        return None
    before = float(np.median(medians[: level.since]))
    height = float(np.median(medians[level.since : level.until])) - before
    shape, deviations = level.shape(len(medians)), medians - medians.mean()
    shape = shape - shape.mean()
    fit = float(shape @ deviations) ** 2 / float((shape @ shape) * (deviations @ deviations))
    return Change(level.since, level.until, before, height, False, fit)


def _has_ended(medians: Floats, since: int, until: int) -> bool:
    if len(medians) - until < MIN_SINCE:
        return False
    before, during = np.median(medians[:since]), np.median(medians[since:until])
    return bool(np.median(medians[until:]) - before <= (1 - _BACK) * (during - before))


def _rise(medians: Floats) -> Change | None:
    count = len(medians)
    starts = np.arange(MIN_BEFORE, count - MIN_SINCE + 1)
    deviations = medians - medians.mean()
    whole = float(deviations @ deviations)
    if not whole or not len(starts):
        return None
    along, norms = _along_rises(deviations, starts)
    best = int(np.where(along > 0, along, 0).argmax())
    since = int(starts[best])
    if best == 0 or _is_from_start(deviations, float(along[best] ** 2)):
        return None
    slope = float(along[best]) / float(norms[best])
    before = float(np.median(medians[:since]))
    height = slope * (count - since)
    return Change(since, count, before, height, True, float(along[best] ** 2) / whole)


def _along_rises(series: Floats, starts: Int64) -> tuple[Floats, Floats]:
    """Return how much of a series lies along a rise from each start to its end, and their norms."""
    shapes = (np.arange(len(series), dtype=np.float64) - starts[:, None] + 1).clip(min=0)
    shapes -= shapes.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(shapes, axis=1)
    return shapes @ series / norms, norms


def beginning_of_rise(medians: Floats, change: Change) -> tuple[int, int]:
    """Return the first block of a rise by its beginning alone, and the block after that beginning.

    A rise need not be straight: what it does later says little about where it begins.

    >>> noise = np.tile([0.0, 1.0, -1.0, 0.5], 25)
    >>> convex = 100 + noise + 0.05 * (np.arange(100) - 29).clip(min=0) ** 2
    >>> fitted = Change(since=45, until=100, before=100.0, height=240.0, rises=True, fit=0.9)
    >>> abs(beginning_of_rise(convex, fitted)[0] - 30) <= 8
    True
    """
    before = medians[: max(MIN_BEFORE, change.since - MIN_SINCE)]
    level = float(np.median(before))
    noise = noise_of(before - level)
    clear = np.flatnonzero(medians > level + max(_CLEAR * noise, _CLEAR_FRAC * change.height))
    clear = clear[clear >= MIN_BEFORE]
    runs = clear[np.isin(clear + 1, clear) & np.isin(clear + 2, clear)]
    end = len(medians) if not len(runs) else min(len(medians), int(runs[0]) + MIN_SINCE)
    starts = np.arange(MIN_BEFORE, end - 2)
    if not len(starts):
        return change.since, len(medians)
    along, _ = _along_rises(medians[:end], starts)
    return int(starts[int(along.argmax())]), end


def _is_from_start(deviations: Floats, gain: float) -> bool:
    """Return whether a rise from the first block on fits about as well as one with this gain."""
    line = np.arange(len(deviations), dtype=np.float64)
    line -= line.mean()
    whole = float(deviations @ deviations)
    left = whole - float(line @ deviations) ** 2 / float(line @ line)
    return left <= AS_GOOD * (whole - gain)


def is_sure(change: Change, medians: Floats) -> bool:
    """Return whether a change stands out from the noise of blocks and from how they wander."""
    shape = change.shape(len(medians))
    rest = medians - change.height * shape
    inside = shape > 0
    before, since = rest[: change.since], rest[inside]
    noise = noise_of(rest - np.median(rest[: change.since]))
    error = noise * float(np.sqrt(1 / len(before) + 1 / len(since)))
    if change.height <= 0 or change.height * (0.5 if change.rises else 1.0) < MIN_Z * error:
        return False
    if change.height < MIN_WANDER * max(_wander(before), _wander(since)):
        return False
    if change.rises:
        pieces = [float(np.median(p)) for p in np.array_split(medians[inside], _PIECES) if len(p)]
        is_high = pieces[-1] >= change.before + HIGH_END * change.height
        return pieces[0] < pieces[len(pieces) // 2] < pieces[-1] and is_high
    return bool(np.mean(medians[inside] > np.quantile(before, 0.9)) >= MIN_APART)


def _wander(values: Floats) -> float:
    """Return by how much the medians of a few pieces of a series differ."""
    count = min(_PIECES, len(values) // 3)
    if count < 2:
        return 0.0
    medians = [float(np.median(piece)) for piece in np.array_split(values, count)]
    return max(medians) - min(medians)


def first_step(values: Floats, *, before: float, height: float, reach: slice) -> int:
    """Return the index at which values change by `height` at once, within `reach`.

    >>> first_step(np.repeat([5.0, 9.0], 20), before=5.0, height=4.0, reach=slice(8, 32))
    20
    """
    clipped = values.clip(before - height, before + 2 * height)
    above = clipped - (before + height / 2)
    sums: Floats = np.concatenate([[0.0], np.cumsum(above)])
    first: int = reach.start + int(sums[reach].argmin())
    return first


def last_step(values: Floats, *, before: float, height: float, reach: slice) -> int:
    """Return the index after the last value that is higher by `height`, within `reach`."""
    return len(values) - first_step(
        values[::-1],
        before=before,
        height=height,
        reach=slice(len(values) - reach.stop + 1, len(values) - reach.start + 1),
    )


def first_of_rise(values: Floats, places: Floats, *, reach: slice, most: int = 64) -> int:
    """Return the index in `reach` at which a rise best begins.

    Args:
        values: The series without outliers, shape `(n,)`.
        places: The number of the step of each, shape `(n,)`.
        reach: The candidates.
        most: How many of them are tried at most.
    """
    stride = max(1, (reach.stop - reach.start) // most)
    candidates = np.arange(reach.start, reach.stop, stride)
    fits = []
    for start in candidates:
        shape = (places - places[start]).clip(min=0)
        shape = shape - shape.mean()
        norm = float(shape @ shape)
        fits.append(float(shape @ values) ** 2 / norm if norm else 0.0)
    return int(candidates[int(np.argmax(fits))])
