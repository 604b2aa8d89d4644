"""By how much the mean step of two equal runs may differ: no saving can be seen more finely."""

from math import sqrt

import numpy as np

from lightning_gpuprof.analysis.run.distribution import median
from lightning_gpuprof.analysis.run.uneven.spikes import EVEN_PHASES, SPIKE_FRAC
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.reader import Session

BATCHES = 12
"""Stretches of the run whose means are compared: few and long, as a machine's speed drifts over
many steps, and enough that their spread is known to within a fifth."""
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
