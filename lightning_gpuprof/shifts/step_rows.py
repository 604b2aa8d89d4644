"""The times of steps by phase, as slow-downs are looked for in them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag

UNUSUAL = (
    StepFlag.WARMUP
    | StepFlag.COMPILED
    | StepFlag.PROFILED
    | StepFlag.VALIDATION
    | StepFlag.CHECKPOINT
    | StepFlag.EPOCH_START
    | StepFlag.WATCHED
    | StepFlag.UNFINISHED
)
"""Steps with one of these flags are long for a reason of their own."""
COMPARED = tuple(
    phase for phase in Phase if phase not in (Phase.VALIDATION, Phase.CHECKPOINT)
)  # fmt: skip
"""The phases in which slow-downs are looked for."""
_AFTER = 1
"""So many steps after an unusual step are unusual too: its work has emptied the caches."""
_KNOTS = 16
_MIN_PER_KNOT = 8
_VARIES = 0.01
"""Sizes vary if this share of the batches differs from the most frequent size."""


@dataclass(frozen=True)
class StepRows:
    """Steps in their order, with the time of each by phase.

    Args:
        steps: Their numbers, shape `(n,)`.
        flags: Their flags, shape `(n,)`.
        phase_ns: The times by phase without this package's own, each of shape `(n,)`.
        sizes: How many numbers the batch's first tensor holds, shape `(n,)`; None if unknown.
        queued_ns: How long the training thread waited for a core, spread evenly over the steps
            between two readings, shape `(n,)`; None if unknown.
        device_ns: What each step takes on the device's clock, shape `(n,)`, `NOT_MEASURED` where it
            is unknown; None without a device.
        long_steps: The numbers of steps that were not timed by phase and took long, in order.
        long_ns: What these took.
        has_workers: Whether worker processes make the batches.
    """

    steps: Int64
    flags: Int64
    phase_ns: Mapping[Phase, Int64]
    sizes: Int64 | None = None
    queued_ns: Int64 | None = None
    device_ns: Int64 | None = None
    long_steps: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    long_ns: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    has_workers: bool = False

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, phase: Phase) -> Int64:
        """Return the times of a phase, shape `(n,)`; zeros if there are none."""
        ns = self.phase_ns.get(phase)
        return np.zeros(len(self), dtype=np.int64) if ns is None else ns

    def usual(self) -> Mask:
        """Return which steps are neither unusual themselves nor come right after such a step."""
        unusual = (self.flags & int(UNUSUAL)) != 0
        for _ in range(_AFTER):
            unusual[1:] |= unusual[:-1].copy()
        usual: Mask = ~unusual
        return usual

    def chosen(self, which: Mask | slice) -> "StepRows":
        """Return some of the steps, and the long steps between the first and the last of them."""
        steps = self.steps[which]
        first, last = (steps[0], steps[-1]) if len(steps) else (0, -1)
        inside = (self.long_steps >= first) & (self.long_steps <= last)
        return StepRows(
            steps,
            self.flags[which],
            {phase: ns[which] for phase, ns in self.phase_ns.items()},
            None if self.sizes is None else self.sizes[which],
            None if self.queued_ns is None else self.queued_ns[which],
            None if self.device_ns is None else self.device_ns[which],
            self.long_steps[inside],
            self.long_ns[inside],
            self.has_workers,
        )

    def by_size(self) -> dict[Phase, Floats]:
        """Return the times of every phase as they would be with batches of usual size.

        What a phase usually takes for batches of a size is interpolated between medians of steps
        with batches of alike size. A phase that takes longer only as batches get larger takes the
        same in all steps then.
        """
        times = {phase: ns.astype(np.float64) for phase, ns in self.phase_ns.items()}
        if self.sizes is None or not sizes_vary(self.sizes):
            return times
        groups = _groups(self.sizes)
        knots = np.array([np.median(self.sizes[group]) for group in groups])
        for phase, ns in times.items():
            usual = np.array([np.median(ns[group]) for group in groups])
            expected = np.interp(self.sizes, knots, usual)
            middle = float(np.median(ns))
            if middle > 0 and (expected > 0).all():
                times[phase] = ns * (middle / expected)
        return times


def sizes_vary(sizes: Int64) -> bool:
    """Return whether batches differ in size, apart from a few such as the last of an epoch.

    >>> sizes_vary(np.array([8] * 200 + [3])), sizes_vary(np.array([8, 9] * 100))
    (False, True)
    """
    values, counts = np.unique(sizes, return_counts=True)
    return len(values) > 1 and int(counts.max()) < (1 - _VARIES) * len(sizes)


def _groups(sizes: Int64) -> list[Int64]:
    """Return the indices of steps with alike sizes, the smallest first, all of a size together."""
    order = np.argsort(sizes, kind="stable")
    values = sizes[order]
    count = max(1, min(_KNOTS, len(sizes) // _MIN_PER_KNOT))
    places = (np.arange(1, count) * len(sizes)) // count
    cuts = np.unique(np.searchsorted(values, values[places]))
    return [group for group in np.split(order, cuts[cuts > 0]) if len(group)]


def joined(rows: Sequence[StepRows]) -> StepRows:
    """Return the steps of several rows, one after the other. A phase that some lack took no time.

    Sizes are known only if they are in all rows.
    """
    names = dict.fromkeys(phase for row in rows for phase in row.phase_ns)
    sizes = [row.sizes for row in rows if row.sizes is not None]
    queued = [row.queued_ns for row in rows if row.queued_ns is not None]
    device = [row.device_ns for row in rows if row.device_ns is not None]
    return StepRows(
        np.concatenate([row.steps for row in rows]),
        np.concatenate([row.flags for row in rows]),
        {phase: np.concatenate([row.of(phase) for row in rows]) for phase in names},
        np.concatenate(sizes) if len(sizes) == len(rows) else None,
        np.concatenate(queued) if len(queued) == len(rows) else None,
        np.concatenate(device) if len(device) == len(rows) else None,
        np.concatenate([row.long_steps for row in rows]),
        np.concatenate([row.long_ns for row in rows]),
        rows[-1].has_workers,
    )


def summed(columns: Iterable[Floats | Int64]) -> Floats:
    """Return the sum of columns of equal length; there must be at least one."""
    total: Floats = np.sum(list(columns), axis=0, dtype=np.float64)
    return total
