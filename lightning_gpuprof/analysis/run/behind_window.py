"""Whether the work on a batch takes longer behind a profiler window than before it.

torch.profiler records a GPU by CUPTI, which stays attached behind the window and makes every launch
a little slower. Blocks of the steps before the window are compared with those of stretches behind
it, paired by their place in the stretch, all at once (`chance.py`). It is called slower only if

- every stretch behind the window is slower by more than chance, so that it lasts,
- the first of them is slower by more than the drift of the steps on either side explains,
- the step time changes more at the window than between other neighbouring stretches, and
- forward and backward pass both take longer: both launch.

Where the host waits for the device, its time shows the device's, and nothing is claimed. Before the
default window come eight such steps. A step time that rises within these few steps for another
reason, and then stays, looks the same.
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np

from lightning_gpuprof.analysis.chance import MIN_BLOCKS, sure_means
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Floats, Int64
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import ProfilerCycle, StepFlag

FIRST_STEP = 2
"""Steps from here on count, since few come before the window. Those of the warm-up are rather
slower than the rest, so that less is claimed because of them."""
MOST_STEPS = 200
"""Steps of a stretch at most: those next to the window, before and behind it."""
MIN_STRETCHES, MOST_STRETCHES = 4, 12
"""Stretches behind the window. The steps behind the first are divided among the others."""
LEAST_FRAC = 0.02
"""A smaller increase of the work on a batch is not worth a remedy."""
ELSEWHERE = 0.99
"""The change at the window exceeds this share of the changes between neighbouring stretches."""
LAUNCHING = (Phase.FORWARD, Phase.BACKWARD)
_SPECIAL = (
    StepFlag.COMPILED | StepFlag.PROFILED | StepFlag.VALIDATION | StepFlag.CHECKPOINT
    | StepFlag.EPOCH_START | StepFlag.WATCHED | StepFlag.UNFINISHED
)  # fmt: skip


@dataclass(frozen=True)
class BehindWindow:
    """The work on a batch before and behind the first profiler window, in ns per step."""

    since_step: int
    """The first step behind the window."""
    before_ns: int
    more_ns: int
    """By how much it takes longer: right behind the window or in all steps, whichever is less."""

    @property
    def more_frac(self) -> float:
        """By which share it takes longer."""
        return self.more_ns / max(1, self.before_ns)


def behind_window(session: Session, *, host_bound: bool) -> BehindWindow | None:
    """Return how much slower the first window left a run; None if it did not, or not surely.

    Args:
        session: A session that trained on a GPU; of others nothing is claimed.
        host_bound: Whether the host never waits for the device, as the device's own clock shows.
    """
    device, cycles = session.start.device, session.all(ProfilerCycle)
    if not host_bound or device is None or device.type != "cuda" or not cycles:
        return None
    phases = session.phases_ns(BATCH_WORK)
    before, behind = _rows(session, cycles[0])
    count = len(before)
    if count < MIN_BLOCKS or len(behind) < MIN_STRETCHES * count or not set(LAUNCHING) <= {*phases}:
        return None
    work = np.sum(list(phases.values()), axis=0).astype(np.float64)
    numbers = session.columns["step"]
    blocks = max(MIN_BLOCKS, isqrt(count))
    drift = _drift_ns(numbers, work, before, behind)
    rises = _stretches(work[behind], count, blocks) - _blocks(work[before], blocks)
    launching = [
        _blocks(phases[phase][behind], blocks) - _blocks(phases[phase][before], blocks)
        for phase in LAUNCHING
    ]
    if (sure_means(np.vstack([rises, rises[0] - drift, *launching])) <= 0).any():
        return None
    usual_before = float(np.median(work[before]))
    neighbours = np.median(_neighbours(work[behind], count), axis=1)
    jump = float(neighbours[0]) - usual_before
    if jump - drift <= np.quantile(np.abs(np.diff(neighbours)), ELSEWHERE):
        return None
    more_ns = min(jump, float(np.median(rises)))
    if more_ns < LEAST_FRAC * usual_before:
        return None
    return BehindWindow(int(numbers[behind[0]]), round(usual_before), round(more_ns))


def _rows(session: Session, cycle: ProfilerCycle) -> tuple[Int64, Int64]:
    """Return the rows of ordinary steps before and behind a window, with batches of equal size."""
    numbers = session.columns.get("step")
    if numbers is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    flags = step_flags(session)
    recorded = numbers[((flags & int(StepFlag.PROFILED)) != 0) & (numbers <= cycle.last_step)]
    first = min([cycle.first_step, *recorded.tolist()])
    plain = ((flags & int(_SPECIAL)) == 0) & (numbers >= FIRST_STEP)
    before = plain & (numbers < first)
    samples = session.columns.get("samples")
    if samples is not None and before.any():
        sizes, counts = np.unique(samples[before], return_counts=True)
        plain &= samples == sizes[counts.argmax()]
    before &= plain
    behind = plain & (numbers > cycle.last_step)
    return np.flatnonzero(before)[-MOST_STEPS:], np.flatnonzero(behind)


def _stretches(work: Floats, count: int, blocks: int) -> Floats:
    """Return the blocks of the first `count` values, and of stretches of all later ones."""
    pieces = min(MOST_STRETCHES - 1, len(work) // count - 1)
    later = np.array_split(work[count:], pieces)
    return np.stack([_blocks(piece, blocks) for piece in (work[:count], *later)])


def _blocks(values: Floats | Int64, count: int) -> Floats:
    """Return the medians of `count` blocks of neighbours, which single slow steps do not change."""
    return np.array([np.median(block) for block in np.array_split(values, count)])


def _neighbours(work: Floats, count: int) -> Floats:
    """Return consecutive stretches of `count` steps, shape `(stretches, count)`."""
    return work[: len(work) // count * count].reshape(-1, count)


def _drift_ns(numbers: Int64, work: Floats, before: Int64, behind: Int64) -> float:
    """Return by how much the first stretch may be slower because the step time rises anyway."""
    count = len(before)
    first = behind[:count]
    middles = _neighbours(numbers[behind].astype(np.float64), count).mean(axis=1)
    usual = np.median(_neighbours(work[behind], count), axis=1)
    slopes = (
        _slope(numbers[before], work[before]),
        _slope(numbers[first], work[first]),
        _slope(middles[:MOST_STEPS], usual[:MOST_STEPS]),
    )
    return max(0.0, *slopes) * float(numbers[first].mean() - numbers[before].mean())


def _slope(at: Floats | Int64, values: Floats) -> float:
    """Return the median slope between pairs of points (Theil and Sen).

    >>> _slope(np.array([0, 1, 2, 3]), np.array([0.0, 2.0, 99.0, 6.0]))
    2.0
    """
    low, high = np.triu_indices(len(at), 1)
    return float(np.median((values[high] - values[low]) / (at[high] - at[low])))
