"""Single steps that take far longer than the others, for no reason that has a phase of its own."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.distribution import Int64, median
from lightning_gpuprof.analysis.run.steady import Mask, step_flags
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Note, StepFlag

SPIKE_FRAC = 0.5
"""A step this much above the median step is a spike: timers and the scheduler's time slices stay
below it on steps of milliseconds."""
REGULAR = 0.25
"""Spikes whose distances spread by less than this share of their mean come regularly. Chance
(Poisson) gives 1; noise from other processes does not keep step with training."""
MIN_REGULAR = 3
SPAN = 0.5
"""What the program does every n steps it does all through the run, or half of it at the least."""
MOSTLY = 0.5
"""Where the collector took this share of a spike's excess, the rest is taken to follow from it."""
GC_NOTE = "gc_ns"
"""Note of this name: what one run of Python's garbage collector took in a step."""
EVEN_PHASES = (*BATCH_WORK, Phase.OTHER)
"""The phases that should take the same each time."""


@dataclass(frozen=True)
class Spikes:
    """The spikes among the steady steps, in `EVEN_PHASES`.

    Waits for data, callbacks, logging, checkpoints and validation are left out: each has a
    finding of its own.
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
    gc_ns: int | None
    """The collector's runs in all these steps, spikes or not; None where not recorded."""
    gc_count: int
    """Steps in which it ran."""
    gc_excess_ns: int
    """What the spikes took above the median in which the collector took most of that."""


def spikes(session: Session, steady: Mask) -> Spikes | None:
    """Find the spikes; None where no step was recorded."""
    columns = session.phases_ns(EVEN_PHASES)
    if not columns or not steady.any():
        return None
    compute = np.sum(list(columns.values()), axis=0)
    whole = median(session.columns["dur_ns"][steady])
    typical = median(compute[steady])
    unusual = (step_flags(session) & int(StepFlag.EPOCH_START)) != 0
    high = steady & ~unusual & (compute > typical + SPIKE_FRAC * whole)
    steps, count = int(steady.sum()), int(high.sum())
    above = compute - typical
    excess = int(above[high].sum())
    collected = collected_ns(session)
    by_phase = {p: int((c[high] - median(c[steady])).sum()) for p, c in columns.items()}
    return Spikes(
        count=count,
        steps=steps,
        excess_ns=excess,
        excess_per_step_ns=excess // steps,
        every_steps=_distance(np.flatnonzero(high), len(high)),
        phase=max(by_phase, key=lambda phase: by_phase[phase]) if count else None,
        gc_ns=None if collected is None else int(collected[steady].sum()),
        gc_count=0 if collected is None else int((collected[steady] > 0).sum()),
        gc_excess_ns=0
        if collected is None
        else int(above[high & (collected >= MOSTLY * above)].sum()),
    )


def _distance(indices: "np.ndarray[tuple[int], np.dtype[np.int64]]", steps: int) -> float | None:
    """Return the mean distance of spikes that come regularly; None for a burst of them."""
    if len(indices) < MIN_REGULAR or indices[-1] - indices[0] < SPAN * steps:
        return None
    distances = np.diff(indices)
    mean = float(distances.mean())
    return mean if float(distances.std()) <= REGULAR * mean else None


def collected_ns(session: Session) -> Int64 | None:
    """Return the collector's time in each step; None where it took none or was not watched."""
    column = session.columns.get(GC_NOTE)
    if column is not None:
        return column
    taken = {n.step: n.value for n in session.all(Note) if n.name == GC_NOTE}
    if not taken:
        return None
    numbers = session.columns.get("step", np.arange(session.steps))
    return np.array([int(taken.get(step) or 0) for step in numbers.tolist()], dtype=np.int64)
