"""Finds spikes that recur at regular distances from some step on."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64
from lightning_gpuprof.shifts.levels import noise_of

MIN_SPIKES = 4
"""So many spikes at equal distances are no chance, if spikes are as rare as `MOST_CHANCE` asks."""
MOST_CHANCE = 1e-4
"""How likely so many spikes at equal distances may be among spikes at random steps."""
LEAST_HEIGHT = 0.3
"""A spike exceeds the usual step by this share of it."""
LEAST_MEAN = 0.005
"""The mean of a phase exceeds its median by this share of the step, or there is no train that
matters."""
NOISE_HEIGHT = 8.0
"""A spike exceeds the phase's usual time by so many standard deviations."""
LEAST_SHARE = 0.6
"""Of the excess of all spikes since the first, the train has this share."""
MOST_MISSED = 0.2
"""At most this share of the places where a spike is due may lack it."""
TOLERANCE = 0.03
"""By which share of their distance spikes may be off."""
QUIET_PERIODS = 2
"""Before the first spike there is none for so many distances."""
LEAST_RISE = 2.0
"""In steps since the first spike, the mean excess is so many times that before."""
COMPARABLE = 0.5
"""A spike before the first counts if it has this share of their height."""
_MOST_SPIKES = 200
_MOST_DISTANCES = 16
_MOST_PASSED = 4


@dataclass(frozen=True)
class Train:
    """Spikes at regular distances.

    Args:
        steps: The numbers of their steps.
        every: Their distance in steps.
        height: By how much they usually exceed the other steps.
        ended: Whether they have ceased to come.
    """

    steps: Int64
    every: int
    height: float
    ended: bool


def find_train(
    steps: Int64, values: Floats, *, usual_step: float, known: Int64 | None = None
) -> Train | None:
    """Return the train of spikes that begins within a series; None if there is none.

    Args:
        steps: The numbers of the steps, shape `(n,)`.
        values: What a phase takes in each, shape `(n,)`.
        usual_step: The usual step, by which spikes are judged.
        known: The numbers of all steps whose spikes are in the series; by default `steps`.

    >>> values = np.full(900, 10.0)
    >>> values[400::50] = 90.0
    >>> train = find_train(np.arange(900), values, usual_step=10.0)
    >>> train.steps.tolist()[:3], train.every, train.height, len(train.steps)
    ([400, 450, 500], 50, 80.0, 10)
    >>> values[::50] = 90.0
    >>> find_train(np.arange(900), values, usual_step=10.0) is None
    True
    """
    middle = float(np.median(values))
    excess = values - middle
    noise = noise_of(excess)
    # A train that costs enough raises the mean, unless it is a small part of the steps.
    if float(excess.mean()) < LEAST_MEAN * usual_step:
        return None
    high = np.flatnonzero(excess > max(LEAST_HEIGHT * usual_step, NOISE_HEIGHT * noise))
    if len(high) > _MOST_SPIKES:  # so many that the smaller ones are noise
        high = np.sort(high[np.argsort(excess[high])[-_MOST_SPIKES:]])
    high, excess = _merged(steps, excess, high)
    known = steps if known is None else known
    trains = [
        train
        for least in _least_heights(excess[high])
        if (train := _train_of(steps, excess, high, least, known)) is not None
    ]
    return max(trains, key=lambda train: len(train.steps), default=None)


def _merged(steps: Int64, excess: Floats, high: Int64) -> tuple[Int64, Floats]:
    """Take spikes in steps that follow each other as one spike in the first of them.

    >>> _merged(np.arange(4), np.array([0.0, 5.0, 7.0, 0.0]), np.array([1, 2]))[1].tolist()
    [0.0, 12.0, 0.0, 0.0]
    """
    if not len(high):
        return high, excess
    begins = np.concatenate([[True], np.diff(steps[high]) > 1])
    sums = np.bincount(np.cumsum(begins) - 1, excess[high])
    merged = excess.copy()
    merged[high] = 0.0
    merged[high[begins]] = sums
    return high[begins], merged


def _least_heights(heights: Floats) -> list[float]:
    """Return from which heights on spikes are considered, since smaller ones may be noise."""
    if len(heights) < MIN_SPIKES:
        return []
    ordered = np.sort(heights)
    return sorted(
        {float(ordered[int(share * (len(ordered) - 1))]) for share in (0, 0.25, 0.5, 0.75)}
    )


def _train_of(
    steps: Int64, excess: Floats, high: Int64, least: float, known: Int64
) -> Train | None:
    chosen = high[excess[high] >= least]
    if len(chosen) < MIN_SPIKES:
        return None
    at = steps[chosen]
    distances = np.diff(at)
    best: tuple[float, Int64, int] | None = None
    choices, counts = np.unique(distances[distances > 1], return_counts=True)
    for every in choices[np.argsort(-counts, kind="stable")][:_MOST_DISTANCES].tolist():
        members = _without_strays(at, _longest_comb(at, every, known), every, known)
        if len(members) < MIN_SPIKES:
            continue
        share = float(excess[chosen[members]].sum())
        if best is None or share > best[0]:
            best = share, members, every
    if best is None:
        return None
    _, members, every = best
    return _judged(steps, excess, high, chosen[members], every)


def _without_strays(at: Int64, members: Int64, every: int, known: Int64) -> Int64:
    """Return the spikes of a comb without first ones behind which a spike is missing.

    >>> at = np.array([10, 40, 50, 60, 70, 80])
    >>> _without_strays(at, np.arange(6), 10, np.arange(90)).tolist()
    [1, 2, 3, 4, 5]
    """
    while len(members) > MIN_SPIKES:
        due = np.arange(at[members[0]] + every, at[members[1]] - every // 2, every)
        if not np.isin(due, known).any():
            break
        members = members[1:]
    return members


def _longest_comb(at: Int64, every: int, known: Int64) -> Int64:
    """Return the indices of spikes that follow each other at a distance, with few missing.

    Steps that were not timed cannot be missing.

    >>> _longest_comb(np.array([3, 10, 20, 24, 30, 50]), 10, np.arange(60)).tolist()
    [1, 2, 4, 5]
    """
    tolerance = max(1, round(TOLERANCE * every))
    after = [_next(at, times * every, tolerance) for times in range(1, _MOST_PASSED + 1)]
    # From the last spike backwards: the length of the comb that begins at each.
    lengths, successors = [1] * len(at), [-1] * len(at)
    for index in range(len(at) - 2, -1, -1):
        for following in after:  # one that is missing is passed over
            successor = following[index]
            if successor >= 0 and lengths[successor] >= lengths[index]:
                lengths[index], successors[index] = lengths[successor] + 1, successor
    member = max(range(len(at)), key=lengths.__getitem__)
    members = []
    while member >= 0:
        members.append(member)
        member = successors[member]
    due = np.arange(at[members[0]], at[members[-1]] + 1, every)
    expected = int(np.isin(due, known).sum())
    few_missing = expected - len(members) <= MOST_MISSED * expected
    return np.array(members if few_missing else [], dtype=np.int64)


def _next(at: Int64, distance: int, tolerance: int) -> list[int]:
    """Return for every spike the index of that at a distance from it; -1 if there is none."""
    place = np.searchsorted(at, at + distance - tolerance)
    inside = np.append(at, np.iinfo(np.int64).max)[place] <= at + distance + tolerance
    following: list[int] = np.where(inside, place, -1).tolist()
    return following


def _judged(steps: Int64, excess: Floats, high: Int64, members: Int64, every: int) -> Train | None:
    first, last, height = int(members[0]), int(members[-1]), float(np.median(excess[members]))
    quiet = steps[first] - steps[0] >= QUIET_PERIODS * every
    earlier = high[(high < first) & (excess[high] >= COMPARABLE * height)]
    quiet_from = steps[first] - QUIET_PERIODS * every
    # Spikes before the first are chance only if they are far rarer than those of the train.
    span = max(1, int(steps[first] - steps[0]))
    if not quiet or (steps[earlier] >= quiet_from).sum() > 1:
        return None
    if len(earlier) / span > 0.3 / every:
        return None
    since = high[(high >= first) & (high <= last)]
    if excess[members].sum() < LEAST_SHARE * excess[since].sum():
        return None
    # How likely it is that spikes at random steps make such a train, wherever it begins.
    around = len(since) / max(1, int(steps[last] - steps[first]) + 1)
    density = max(around, len(high) / max(1, int(steps[-1] - steps[0]) + 1))
    hit = min(1.0, density * (2 * max(1, round(TOLERANCE * every)) + 1))
    if hit ** (len(members) - 1) * len(high) ** 2 > MOST_CHANCE:
        return None
    before, rest = excess[:first], excess[first : last + 1]
    if rest.mean() < LEAST_RISE * max(0.0, float(before.mean())):
        return None
    ended = steps[-1] - steps[last] > 3 * every
    return Train(steps[members], every, height, bool(ended))
