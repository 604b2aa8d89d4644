"""Single steps that take far longer than the others, and the noise of the mean step."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from lightning_gpuprof.analysis.run.every_step import untimed_spans
from lightning_gpuprof.analysis.run.pace import STRETCHES
from lightning_gpuprof.analysis.run.steady import BATCHES, median, step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import StepFlag

SPIKE_FRAC = 0.5
"""A step that exceeds the median by this share of it is a spike. Interruptions by the operating
system's scheduler are shorter."""
REGULAR = 0.2
"""Spikes come regularly if the standard deviation of their distances is at most this share of the
mean distance. For spikes at random (Poisson) it is 1."""
MIN_REGULAR = 5
"""Five spikes at random steps are that regular in 1% of cases, six in 0.3%."""
SPAN = 0.5
"""Regular spikes extend over at least this share of the run."""
EVEN_PHASES = (*BATCH_WORK, Phase.OTHER)
"""The phases that should take as long in every step."""


@dataclass(frozen=True)
class Spikes:
    """The spikes among the steady steps, by the time of `EVEN_PHASES`.

    Other phases, such as waits for data, logging and validation, are left out because findings of
    their own report them. Garbage collections are left out too, but counted.
    """

    count: int
    steps: int
    """All steady steps."""
    excess_ns: int
    """By how much all spikes together exceed the median."""
    excess_per_step_ns: int
    every_steps: float | None
    """The mean distance of spikes in steps if they come regularly, else None."""
    phase: Phase | None
    """The phase with most of the excess; None if there are no spikes."""
    gc_count: int
    """Steps in which the garbage collector ran; the untimed steps of a window count once."""


def spikes(session: Session, steady: Mask, *, paced: bool = False) -> Spikes | None:
    """Find the spikes; None if no step was recorded.

    If the step time changes for good (`paced`), a step is compared with those around it.
    """
    columns = session.phases_ns(EVEN_PHASES)
    if not columns or not steady.any():
        return None
    even_ns = np.sum(list(columns.values()), axis=0)
    step_ns = median(session.columns["dur_ns"][steady])
    # The start of workers and compilations have findings of their own.
    apart = (step_flags(session) & int(StepFlag.EPOCH_START | StepFlag.COMPILED)) != 0
    usual_ns = _local_medians(even_ns, steady) if paced else median(even_ns[steady])
    above_ns = even_ns - usual_ns
    numbers = session.step_numbers
    high = steady & ~apart & (above_ns > SPIKE_FRAC * step_ns)
    steps, count = int(steady.sum()), int(high.sum())
    excess_ns = int(above_ns[high].sum())
    gc = Phase.GARBAGE_COLLECTION
    gc_ns = session.phase_ns(gc)
    collections = 0 if gc_ns is None else int(((gc_ns > 0) & steady).sum())
    untimed_collections = sum(1 for span in untimed_spans(session) if span.phase_ns.get(gc.value))
    excess_by_phase = {
        phase: int((column[high] - median(column[steady])).sum())
        for phase, column in columns.items()
    }
    return Spikes(
        count=count,
        steps=steps,
        excess_ns=excess_ns,
        excess_per_step_ns=excess_ns // steps,
        every_steps=_distance(numbers[high], numbers),
        phase=max(excess_by_phase, key=excess_by_phase.__getitem__) if count else None,
        gc_count=collections + untimed_collections,
    )


def _local_medians(values_ns: Int64, steady: Mask) -> Int64:
    """Return for every step the median of the steady steps around it."""
    usual_ns = np.zeros(len(values_ns), dtype=np.int64)
    for stretch in np.array_split(np.flatnonzero(steady), STRETCHES):
        if len(stretch):
            usual_ns[stretch] = median(values_ns[stretch])
    return usual_ns


def _distance(spiking: Int64, numbers: Int64) -> float | None:
    """Return the mean distance of spikes in steps; None if they do not come regularly."""
    if len(spiking) < MIN_REGULAR or spiking[-1] - spiking[0] < SPAN * (numbers[-1] - numbers[0]):
        return None
    distances = np.diff(spiking)
    mean = float(distances.mean())
    return mean if float(distances.std()) <= REGULAR * mean else None


MIN_STEPS = 4 * BATCHES
CONFIDENCE_Z = 1.96


def step_noise_ns(session: Session, steady: Mask) -> int | None:
    """Return the 95% bound of the difference between the mean computing of two runs like this one.

    It is estimated from the variation within the run. Two processes may differ by more, because
    their memory lies at other addresses. None if there are too few steps.
    """
    columns = list(session.phases_ns(EVEN_PHASES).values())
    if not columns or int(steady.sum()) < MIN_STEPS:
        return None
    even_ns = np.sum(columns, axis=0)[steady]
    # Spikes are cut off: they have a finding of their own and would outweigh the other steps.
    spike_ns = median(even_ns) + SPIKE_FRAC * median(session.columns["dur_ns"][steady])
    return difference_of_runs_ns(even_ns.clip(max=round(spike_ns)))


def difference_of_runs_ns(values_ns: Int64) -> int:
    """Return the 95% bound of the difference between the means of two runs like `values_ns`.

    It is computed from the differences between the means of neighbouring stretches of steps (batch
    means, von Neumann's estimate), so that a lasting slowdown does not count as noise.

    >>> difference_of_runs_ns(np.full(1200, 7)), difference_of_runs_ns(np.arange(12) % 2 * 1000)
    (0, 566)
    """
    means = np.array([stretch.mean() for stretch in np.array_split(values_ns, BATCHES)])
    variance = float((np.diff(means) ** 2).mean()) / 2
    return round(CONFIDENCE_Z * sqrt(2 * variance / BATCHES))
