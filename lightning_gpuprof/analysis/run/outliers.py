"""Single steps that take far longer than the others, and how finely means can be compared."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from lightning_gpuprof.analysis.run.every_step import unmarked_spans
from lightning_gpuprof.analysis.run.steady import BATCHES, median, step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import StepFlag

SPIKE_FRAC = 0.5
"""A step this much above the median step is a spike: the scheduler's time slices stay below it."""
REGULAR = 0.25
"""Spikes whose distances spread by less of their mean come regularly; chance (Poisson) gives 1."""
MIN_REGULAR = 5
"""Of spikes that chance strews about, five are so even in 2.5 % of cases."""
SPAN = 0.5
"""Regular work goes on through at least half of the run."""
EVEN_PHASES = (*BATCH_WORK, Phase.OTHER)
"""The phases that should take the same each time."""


LASTING = 0.8
"""By so much the share of high steps differs before and after a step from which on all is other."""


@dataclass(frozen=True)
class PaceChange:
    """The step from which on steps take another time, and the medians before and after."""

    step: int
    before_ns: int
    after_ns: int


@dataclass(frozen=True)
class Spikes:
    """The spikes among the steady steps, in `EVEN_PHASES`.

    Waits for data, callbacks, logging, checkpoints and validation are left out: each has a
    finding of its own. So are garbage collections, which are counted beside them.
    """

    count: int
    steps: int
    excess_ns: int
    """Above the median, all spikes together."""
    excess_per_step_ns: int
    every_steps: float | None
    """Mean distance of spikes that come regularly, else None."""
    phase: Phase | None
    """Where most of the excess lies."""
    gc_count: int
    """Steps in which the collector ran, or a window's without marks."""
    changed: PaceChange | None = None
    """Where the high steps are all those before, or after, one of them: no spikes."""


def spikes(session: Session, steady: Mask) -> Spikes | None:
    """Find the spikes; None where no step was recorded."""
    columns = session.phases_ns(EVEN_PHASES)
    if not columns or not steady.any():
        return None
    compute = np.sum(list(columns.values()), axis=0)
    whole = median(session.columns["dur_ns"][steady])
    typical = median(compute[steady])
    unusual = (step_flags(session) & int(StepFlag.EPOCH_START)) != 0
    above = compute - typical
    numbers = session.columns.get("step", np.arange(session.steps))
    high = steady & ~unusual & (above > SPIKE_FRAC * whole)
    steps, count = int(steady.sum()), int(high.sum())
    excess = int(above[high].sum())
    gc = Phase.GARBAGE_COLLECTION
    watched = session.phase_ns(gc)
    collected = np.zeros_like(compute) if watched is None else watched * steady
    by_phase = {p: int((c[high] - median(c[steady])).sum()) for p, c in columns.items()}
    return Spikes(
        count=count,
        steps=steps,
        excess_ns=excess,
        excess_per_step_ns=excess // steps,
        every_steps=_distance(numbers[high], numbers),
        phase=max(by_phase, key=lambda phase: by_phase[phase]) if count else None,
        gc_count=int((collected > 0).sum())
        + sum(bool(span.phase_ns.get(gc.value)) for span in unmarked_spans(session)),
        changed=_pace_change(high[steady], numbers[steady], session.columns["dur_ns"][steady]),
    )


def _pace_change(high: Mask, numbers: Int64, dur_ns: Int64) -> PaceChange | None:
    """Return the change that lasts; None where high steps lie among the others.

    >>> _pace_change(np.arange(40) >= 30, np.arange(40), np.full(40, 7)).step
    30
    >>> _pace_change(np.arange(40) % 4 == 0, np.arange(40), np.full(40, 7)) is None
    True
    """
    at = np.arange(MIN_REGULAR, len(high) - MIN_REGULAR + 1)
    if not len(at) or not high.any():
        return None
    before = np.cumsum(high)[at - 1]
    apart = np.abs((high.sum() - before) / (len(high) - at) - before / at)
    if apart.max() < LASTING:
        return None
    place = int(at[apart.argmax()])
    return PaceChange(int(numbers[place]), median(dur_ns[:place]), median(dur_ns[place:]))


def _distance(spiking: Int64, numbers: Int64) -> float | None:
    """Return the mean distance in steps of spikes that come regularly; None for a burst of them."""
    if len(spiking) < MIN_REGULAR or spiking[-1] - spiking[0] < SPAN * (numbers[-1] - numbers[0]):
        return None
    distances = np.diff(spiking)
    mean = float(distances.mean())
    return mean if float(distances.std()) <= REGULAR * mean else None


MIN_STEPS = 4 * BATCHES
CONFIDENCE_Z = 1.96


def step_noise_ns(session: Session, steady: Mask) -> int | None:
    """Return what the computing of two runs like this one differs by at most, 95 times of 100.

    From the run's own unrest, so it is a lower bound: where memory comes to lie differs from one
    process to the next. None where there are too few steps.
    """
    columns = list(session.phases_ns(EVEN_PHASES).values())
    if not columns or int(steady.sum()) < MIN_STEPS:
        return None
    even = np.sum(columns, axis=0)[steady]
    # Spikes have a finding of their own, and would drown what the other steps show.
    most = median(even) + SPIKE_FRAC * median(session.columns["dur_ns"][steady])
    return difference_of_runs_ns(even.clip(max=round(most)))


def difference_of_runs_ns(values_ns: Int64) -> int:
    """Return the 95 % bound of the difference between the means of two runs like `values_ns`.

    By the differences of neighbouring stretches (batch means, von Neumann's estimate), so that
    what gets slower all along does not count as unrest.

    >>> difference_of_runs_ns(np.full(1200, 7)), difference_of_runs_ns(np.arange(12) % 2 * 1000)
    (0, 566)
    """
    means = np.array([part.mean() for part in np.array_split(values_ns, BATCHES)])
    variance = float((np.diff(means) ** 2).mean()) / 2
    return round(CONFIDENCE_Z * sqrt(2 * variance / BATCHES))
