"""The cost of epochs: how they start, the work between them, and validations."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run import every_step
from lightning_gpuprof.analysis.run.steady import error_of_mean_frac, median, step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.memory.trend import MIN_WINDOWS, lasting_slope
from lightning_gpuprof.records.phases import FETCHES, WORKER_STARTUP, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Loader, StepFlag

REMADE = f"{Phase.DATA_WAIT.value}/train_dataloader"
"""The part of a wait in which the module creates its loader again."""
STARTED = f"part/{Phase.DATA_WAIT.value}/{WORKER_STARTUP}"
"""The column of the time in which loaders create their iterators."""
MIN_RISE_FRAC = 0.2
"""Validations that take longer by less than this share count as equal: the machine varies."""


@dataclass(frozen=True)
class EpochStarts:
    """Waits for the first batch of an epoch, while workers start and make the first batches."""

    count: int
    """Epochs begun."""
    again_ns: int
    """Excess wait at the starts of all epochs but the first, which no setting avoids: by how much
    the waits of their first steps exceed the median wait, and the waits between epochs; without
    `remade_ns`."""
    remade_ns: int
    """Total time of the module's `train_dataloader` after the first epoch began."""
    steady_mean_ns: int
    """How much of the mean wait per steady step is such excess."""
    error_frac: float = 0.0
    """Half the 90% interval of the excess wait of an epoch's first step, as a share of it."""
    slower_ns: int = 0
    """How much longer these first steps took apart from the wait: the training process copies
    memory that it shares with new workers as it writes to it."""


def epoch_starts(session: Session, steady: Mask) -> EpochStarts | None:
    """Measure the cost of epoch starts; None if no wait, or no start of an epoch, was measured."""
    wait = session.phase_ns(Phase.DATA_WAIT)
    if wait is None:
        return None
    first = (step_flags(session) & StepFlag.EPOCH_START) != 0
    if not first.any() or first.all():
        return None
    usual = median(wait[~first])
    excess = (wait - usual).clip(min=0) * first
    began_ns = int(session.columns["start_ns"][first][0])
    spans = [span for span in every_step.between_epochs(session) if span.start_ns >= began_ns]
    untimed = sum(span.steps for span in every_step.untimed_spans(session))
    between = sum(span.phase_ns.get(Phase.DATA_WAIT.value, 0) for span in spans)
    remade = sum(span.part_ns.get(REMADE, 0) for span in spans)
    again_ns = int(excess[first][1:].sum()) + between - remade
    work = session.columns["dur_ns"] - wait
    slower = (work[first][1:] - median(work[~first])).clip(min=0)
    return EpochStarts(
        count=int(first.sum()),
        again_ns=again_ns,
        remade_ns=remade,
        steady_mean_ns=round(int(excess[steady].sum()) / (int(steady.sum()) + untimed)),
        error_frac=error_of_mean_frac(excess[first][1:]),
        slower_ns=int(slower.sum()),
    )


@dataclass(frozen=True)
class AmidStarts:
    """Workers that start within epochs, as the loader creates its iterator again there."""

    every_steps: int
    """They start in one step of so many."""
    per_step_ns: int
    """What the mean step waits longer for it."""


def amid_starts(session: Session, steady: Mask) -> AmidStarts | None:
    """Measure the steps within epochs in which workers start; None if there is no such step."""
    wait, part = session.phase_ns(Phase.DATA_WAIT), session.columns.get(STARTED)
    if wait is None or part is None:
        return None
    started = steady & (part > 0)
    others = steady & ~started
    if not started.any() or not others.any():
        return None
    # Before new workers start, the step waits for the old ones to end: the whole excess counts.
    more_ns = int((wait[started] - median(wait[others])).clip(min=0).sum())
    steps = int(steady.sum())
    return AmidStarts(round(steps / int(started.sum())), more_ns // steps)


_WORK = {phase.value: phase for phase in (Phase.CALLBACKS, Phase.OTHER)}


@dataclass(frozen=True)
class BetweenEpochs:
    """The time of a callback, or of a hook of the module, between epochs and after the last."""

    phase: Phase
    name: str
    epochs: int
    """After, or before, how many epochs it was called."""
    total_ns: int
    longest_ns: int
    """The longest time of its hooks at the end or the start of an epoch."""
    error_frac: float = 0.0
    """Half the 90% interval of the mean of these times, as a share of it."""


def work_between_epochs(session: Session) -> tuple[BetweenEpochs, ...]:
    """Sum up the time of every callback and hook between epochs, the longest first."""
    times_ns: defaultdict[tuple[Phase, str], list[int]] = defaultdict(list)
    ends: Counter[tuple[Phase, str, str]] = Counter()
    for span in every_step.between_epochs(session):
        for key, ns in span.part_ns.items():
            phase, _, name = key.partition("/")
            if phase in _WORK:
                times_ns[_WORK[phase], name].append(ns)
                ends[_WORK[phase], name, span.where] += 1
    work = [
        BetweenEpochs(
            phase,
            name,
            # The end of an epoch and the start of the next count once together.
            epochs=max(ends[phase, name, where] for where in ("epoch_end", "epoch_start")),
            total_ns=sum(times),
            longest_ns=max(times),
            error_frac=error_of_mean_frac(np.array(times)),
        )
        for (phase, name), times in times_ns.items()
    ]
    return tuple(sorted(work, key=lambda item: -item.total_ns))


@dataclass(frozen=True)
class ValidationGrowth:
    """Validations that take longer and longer."""

    first_ns: int
    """The median of the first validations."""
    last_ns: int
    """The median of the last validations."""
    mean_above_first_ns: int
    """By how much the mean exceeds `first_ns`."""


@dataclass(frozen=True)
class Validations:
    """The validations within and between epochs; times are means per validation."""

    count: int
    mean_ns: int
    """A whole validation."""
    start_ns: int
    """Creating the loader's iterator and its workers; 0 in files that did not record it."""
    first_batch_ns: int
    """Waiting for the first batch."""
    next_batches_ns: int
    """Waiting for all further batches."""
    loader: Loader | None
    """Settings of the loader; None for several loaders that differ, and for other iterables."""
    growth: ValidationGrowth | None = None
    """How they take longer and longer; None if they do not, or stop to."""

    @property
    def starts_workers(self) -> bool:
        """Whether every validation starts new worker processes."""
        loader = self.loader
        return loader is not None and bool(loader.num_workers) and not loader.persistent_workers

    @property
    def start_again_ns(self) -> tuple[int, int]:
        """The least and the most that persistent workers save per validation.

        At most they save the whole start and the wait for the first batch. At least they save the
        start, and what the wait exceeds the time for making a batch. That time is known if every
        worker makes two batches or more. With an iterable dataset, Lightning fetches the first
        batch while it creates the iterator.
        """
        workers = self.loader.num_workers if self.loader else None
        batches = self.loader.length if self.loader else None
        whole_ns = self.start_ns + self.first_batch_ns
        fetched_in_start = self.loader is not None and self.loader.dataset_kind == "iterable"
        most_made_ns = whole_ns if fetched_in_start else self.first_batch_ns
        loaders = (self.loader.loaders if self.loader else None) or 1
        if not workers or not batches or batches < 2 * workers * loaders:
            return whole_ns - most_made_ns, whole_ns
        made_ns = workers * loaders * (self.mean_ns - whole_ns) // batches
        return whole_ns - min(most_made_ns, made_ns), whole_ns


def validations(
    session: Session, steady: Mask, every: every_step.EveryStep | None
) -> Validations | None:
    """Measure the validations; None if there was none."""
    count = 0 if every is None else every.flagged.get("validation", 0)
    if every is None or not count:
        return None
    parts_ns = every_step.parts_in_all(session, steady, Phase.VALIDATION)
    start_ns, first_ns, next_ns = (parts_ns[part] for part in FETCHES)
    return Validations(
        count=count,
        mean_ns=every.phase_ns.get(Phase.VALIDATION, 0) // count,
        start_ns=start_ns // count,
        first_batch_ns=first_ns // count,
        next_batches_ns=next_ns // count,
        loader=session.start.validation_loader,
        growth=validation_growth(_validation_times(session)),
    )


def _validation_times(session: Session) -> Int64:
    """Return how long validations took, in order.

    Of those in steps that were not timed by phase, and between epochs, the mean of each record.
    """
    flagged = (step_flags(session) & StepFlag.VALIDATION) != 0
    column = session.phase_ns(Phase.VALIDATION)
    times: list[tuple[int, int]] = []
    if column is not None:
        starts = session.columns["start_ns"][flagged].tolist()
        times.extend(zip(starts, column[flagged].tolist(), strict=True))
    for span in (*every_step.untimed_spans(session), *every_step.between_epochs(session)):
        count = span.flagged.get("validation", 0)
        if count:
            total_ns = span.phase_ns.get(Phase.VALIDATION.value, 0)
            times.append((span.start_ns, total_ns // count))
    return np.array([ns for _, ns in sorted(times)], dtype=np.int64)


def validation_growth(times: Int64) -> ValidationGrowth | None:
    """Return how validations (shape `(n,)`, in order) take longer and longer; None if they do not.

    >>> validation_growth(np.arange(10, 20) * 100)
    ValidationGrowth(first_ns=1100, last_ns=1800, mean_above_first_ns=350)
    >>> validation_growth(np.array([5, 6] * 10)) is None
    True
    """
    if len(times) < MIN_WINDOWS:
        return None
    order = np.arange(len(times), dtype=np.float64)
    if lasting_slope(order, times.astype(np.float64)) is None:
        return None
    few = max(3, len(times) // 8)
    first_ns, last_ns = median(times[:few]), median(times[-few:])
    if last_ns < (1 + MIN_RISE_FRAC) * first_ns:
        return None
    return ValidationGrowth(first_ns, last_ns, max(0, round(times.mean()) - first_ns))


@dataclass(frozen=True, kw_only=True)
class EpochTimes:
    """The cost of what happens once per epoch or validation, not in every step."""

    starts: EpochStarts | None = None
    amid_starts: AmidStarts | None = None
    between: tuple[BetweenEpochs, ...] = ()
    """Time of callbacks and hooks between epochs, the longest first."""
    validations: Validations | None = None
    """None if there was none."""


def epoch_times(session: Session, steady: Mask, every: every_step.EveryStep | None) -> EpochTimes:
    """Measure how epochs begin and end, and the validations."""
    return EpochTimes(
        starts=epoch_starts(session, steady),
        amid_starts=amid_starts(session, steady),
        between=work_between_epochs(session),
        validations=validations(session, steady, every),
    )
