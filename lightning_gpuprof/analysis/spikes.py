"""Single steps that take far longer than the others, for no reason that has a phase of its own."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.distribution import median
from lightning_gpuprof.analysis.steady import Mask, step_flags
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Note, StepFlag

SPIKE_FRAC = 0.5
"""A step this much above the median step is a spike: timers and the scheduler's time slices stay
below it on steps of milliseconds."""
REGULAR = 0.25
"""Spikes whose distances spread by less than this share of their mean come regularly. Chance
(Poisson) gives 1; noise from other processes does not keep step with training."""
MIN_REGULAR = 3
GC_NOTE = "gc_ns"
"""Note of this name: what one run of Python's garbage collector took in a step."""
_COMPUTE = (
    Phase.HOST_TO_DEVICE,
    Phase.FORWARD,
    Phase.ZERO_GRAD,
    Phase.BACKWARD,
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
    Phase.OTHER,
)


@dataclass(frozen=True)
class Spikes:
    """The spikes among the steady steps, in the phases that should take the same each time.

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


def spikes(session: Session, steady: Mask) -> Spikes | None:
    """Find the spikes; None where no step was recorded."""
    columns = {p: c for p in _COMPUTE if (c := session.phase_ns(p)) is not None}
    if not columns or not steady.any():
        return None
    compute = np.sum(list(columns.values()), axis=0)
    whole = median(session.columns["dur_ns"][steady])
    typical = median(compute[steady])
    unusual = (step_flags(session) & int(StepFlag.EPOCH_START)) != 0
    high = steady & ~unusual & (compute > typical + SPIKE_FRAC * whole)
    steps, count = int(steady.sum()), int(high.sum())
    excess = int((compute[high] - typical).sum())
    by_phase = {p: int((c[high] - median(c[steady])).sum()) for p, c in columns.items()}
    return Spikes(
        count=count,
        steps=steps,
        excess_ns=excess,
        excess_per_step_ns=excess // steps,
        every_steps=_distance(np.flatnonzero(high)),
        phase=max(by_phase, key=lambda phase: by_phase[phase]) if count else None,
        gc_ns=_collected(session, steady),
    )


def _distance(indices: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> float | None:
    if len(indices) < MIN_REGULAR:
        return None
    distances = np.diff(indices)
    mean = float(distances.mean())
    return mean if float(distances.std()) <= REGULAR * mean else None


def _collected(session: Session, steady: Mask) -> int | None:
    notes = [note for note in session.all(Note) if note.name == GC_NOTE]
    column = session.columns.get(GC_NOTE)
    if column is not None:
        return int(column[steady].sum())
    if not notes:
        return None
    numbers = session.columns.get("step", np.arange(session.steps))
    wanted = set(numbers[steady].tolist())
    return sum(int(n.value) for n in notes if n.step in wanted and isinstance(n.value, int))
