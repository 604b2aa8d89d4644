"""How sure a difference of two means is, from the variation of the steps themselves."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.analysis.chance import (
    MIN_BLOCKS,
    RESAMPLES,
    SEED,
    block_count,
    block_means,
    drawn_blocks,
    widening,
)
from lightning_gpuprof.analysis.run.step_kinds import PLAIN, Blocks
from lightning_gpuprof.analysis.run.whole_fit import WholeFit
from lightning_gpuprof.arrays import Floats

MISSED = 0.05
"""How often an interval may miss the true value."""
COMPILE_SPREAD = 0.1
"""The assumed standard deviation of torch.compile's time in equal runs, as a share of it.

A run that compiles its code once cannot show it."""


@dataclass(frozen=True)
class Interval:
    """A figure with the interval that resampling gives it."""

    low: float
    middle: float
    high: float


class SteadyTime(NamedTuple):
    """A time per steady step, such as that of a phase."""

    mean_ns: float
    """Over all steps, timed by phase or not."""
    blocks: tuple[Blocks, ...]
    """The timed steps; all times of a run have blocks of the same steps."""


class Certainty(str, Enum):
    """How sure it is that a difference is not chance."""

    SURE = "sure"
    NOISE = "noise"
    """Steps vary by so much that the difference may be chance."""
    TOO_FEW = "too_few"
    """Too few steps were timed, or too few of those that come by a plan and make the difference."""


class TimeIntervals(NamedTuple):
    """A time of two runs and the difference, in ns; None where too few steps were timed."""

    base: Interval | None = None
    new: Interval | None = None
    diff: Interval | None = None
    certainty: Certainty = Certainty.TOO_FEW


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
    ratios = _means_of_fit(new, random) / _means_of_fit(base, random) - 1
    low, high = _bounds(ratios, MISSED)
    middle = new.step_ns / base.step_ns - 1
    return Interval(round(low, 6), round(middle, 6), round(high, 6))


def _means_of_fit(fit: WholeFit, random: np.random.Generator) -> Floats:
    """Return the mean step in every resample."""
    means: Floats = np.zeros(RESAMPLES)
    for kind in fit.kinds:
        count = block_count(len(kind.values_ns), neighbours=kind.name == PLAIN)
        means += (
            kind.per_step * _drawn_means(block_means(kind.values_ns[None, :], count), random)[0]
        )
    if fit.compiling_ns:
        means += fit.compiling_ns * (1 + COMPILE_SPREAD * random.standard_normal(RESAMPLES))
    return means


def _drawn_means(blocks: Floats, random: np.random.Generator) -> Floats:
    """Return the mean of every row of blocks, in every resample: shape (rows, resamples)."""
    count = blocks.shape[1]
    means: Floats = blocks @ drawn_blocks(count, random).T / count
    return means


def _widened_means(blocks: Floats, random: np.random.Generator) -> Floats:
    """Return the mean of every row of blocks, in every resample, as far apart as means may be."""
    means = _drawn_means(blocks, random)
    if blocks.shape[1] < MIN_BLOCKS:
        return means
    middles = blocks.mean(axis=1, keepdims=True)
    widened: Floats = middles + widening(blocks)[:, None] * (means - middles)
    return widened


def _bounds(resampled: Floats, missed: float) -> tuple[float, float]:
    low, high = np.percentile(resampled, (50 * missed, 100 - 50 * missed))
    return float(low), float(high)


def intervals_of_times(
    base: Sequence[SteadyTime], new: Sequence[SteadyTime]
) -> list[TimeIntervals]:
    """Return the intervals of times that both runs measured, such as those of their phases.

    Blocks are drawn as for the mean step, the same ones for all times of a run. The interval of a
    mean holds 19 times in 20. Those of differences are wider: they all hold together 19 times in
    20, so that the largest may be looked at.

    Args:
        base: The base run's times.
        new: The same times of the other run, in the same order.
    """
    if not base or min(_timed_steps(times[0]) for times in (base, new)) < MIN_BLOCKS:
        return [TimeIntervals()] * len(base)
    random = np.random.default_rng(SEED)
    after, before = (_Resamples(times, random) for times in (new, base))
    # Where few steps of a kind were timed, chance may explain all of their difference.
    few = before.few | after.few
    diffs = after.means_ns - before.means_ns
    without_few = diffs - (after.part_ns(few) - before.part_ns(few))
    took_time = sum(bool(old.mean_ns or now.mean_ns) for old, now in zip(base, new, strict=True))
    missed = MISSED / max(1, took_time)
    intervals = []
    for row, (old, now) in enumerate(zip(base, new, strict=True)):
        own = before.interval(row), after.interval(row)
        if not (before.timed[row] and after.timed[row]):
            intervals.append(TimeIntervals(*own))
            continue
        bounds = _bounds(diffs[row], missed)
        lower, higher = _bounds(without_few[row], missed)
        low, high = min(bounds[0], lower), max(bounds[1], higher)
        certainty = Certainty.SURE
        if low <= 0 <= high:
            noise = bounds[0] <= 0 <= bounds[1]
            certainty = Certainty.NOISE if noise else Certainty.TOO_FEW
        diff = Interval(low, now.mean_ns - old.mean_ns, high)
        intervals.append(TimeIntervals(*own, diff, certainty))
    return intervals


def _timed_steps(time: SteadyTime) -> int:
    return sum(blocks.count for blocks in time.blocks)


class _Resamples:
    """A run's times in resamples of its steps; arrays have the shape (times, resamples)."""

    def __init__(self, times: Sequence[SteadyTime], random: np.random.Generator) -> None:
        kinds = list(zip(*(time.blocks for time in times), strict=True))
        blocks = {
            rows[0].kind: rows[0].per_step * np.stack([row.means_ns for row in rows])
            for rows in kinds
        }
        self._mean_ns = np.array([time.mean_ns for time in times], dtype=np.float64)
        self._timed_ns = {kind: of_kind.mean(axis=1) for kind, of_kind in blocks.items()}
        timed_ns: Floats = np.sum(list(self._timed_ns.values()), axis=0)
        self.timed = (timed_ns > 0) | (self._mean_ns == 0)
        """Whether timed steps took any of a time that is not 0."""
        # Timed steps stand for the others, so that all together have the mean.
        scale = self._mean_ns / np.where(timed_ns > 0, timed_ns, 1.0)
        self._drawn_ns = {
            kind: scale[:, None] * _widened_means(of_kind, random)
            for kind, of_kind in blocks.items()
        }
        self.few = {rows[0].kind for rows in kinds if rows[0].count < MIN_BLOCKS}
        """The kinds of which few steps were timed."""
        self.means_ns = self.part_ns(blocks)

    def part_ns(self, kinds: Collection[str]) -> Floats:
        """Return the part of the means that lies in steps of these kinds."""
        parts = [drawn for kind, drawn in self._drawn_ns.items() if kind in kinds]
        zeros: Floats = np.zeros((len(self._mean_ns), RESAMPLES))
        return sum(parts, zeros)

    def interval(self, row: int) -> Interval | None:
        """Return the interval of a mean; None if steps of well-timed kinds took none of it."""
        mean_ns = float(self._mean_ns[row])
        well_timed = [ns[row] for kind, ns in self._timed_ns.items() if kind not in self.few]
        if mean_ns and not any(well_timed):
            return None
        low, high = _bounds(self.means_ns[row], MISSED)
        return Interval(max(0.0, low), mean_ns, high)
