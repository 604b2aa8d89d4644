"""The cost of epochs: their starts, work between them, and validations."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run import every_step
from lightning_gpuprof.analysis.run.steady import error_of_mean_frac, median, step_flags
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import FETCHES, WORKER_STARTUP, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Loader, StepFlag

REMADE = f"{Phase.DATA_WAIT.value}/train_dataloader"
"""The part of a wait in which the module makes its loader anew."""


STARTED = f"part/{Phase.DATA_WAIT.value}/{WORKER_STARTUP}"


@dataclass(frozen=True)
class EpochStarts:
    """Waits for the first batch of an epoch: data workers start, the first batches are made."""

    count: int
    """Epochs begun."""
    again_ns: int
    """What the epochs after the first cost: what their first steps waited above the median of the
    others, with the wait between epochs; a first start there always is. Without `remade_ns`."""
    remade_ns: int
    """Total time of the module's `train_dataloader` after the first epoch began."""
    steady_mean_ns: int
    """How much of the mean wait per steady step is such excess."""
    error_frac: float = 0.0
    """Half the 90 % interval of what the first steps of epochs waited, as a share of it."""
    slower_ns: int = 0
    """How much longer those first steps took besides: the training process copies memory that it
    shares with new workers as it writes to it."""


def epoch_starts(session: Session, steady: Mask) -> EpochStarts | None:
    """Measure the cost of epoch starts, or return None where no wait was measured."""
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
    unmarked = sum(span.steps for span in every_step.unmarked_spans(session))
    between = sum(span.phase_ns.get(Phase.DATA_WAIT.value, 0) for span in spans)
    remade = sum(span.part_ns.get(REMADE, 0) for span in spans)
    again_ns = int(excess[first][1:].sum()) + between - remade
    work = session.columns["dur_ns"] - wait
    slower = (work[first][1:] - median(work[~first])).clip(min=0)
    return EpochStarts(
        count=int(first.sum()),
        again_ns=again_ns,
        remade_ns=remade,
        steady_mean_ns=round(int(excess[steady].sum()) / (int(steady.sum()) + unmarked)),
        error_frac=error_of_mean_frac(excess[first][1:]),
        slower_ns=int(slower.sum()),
    )


@dataclass(frozen=True)
class AmidStarts:
    """Workers that start amid epochs: in one step of so many, what the wait is longer there."""

    every_steps: int
    per_step_ns: int


def amid_starts(session: Session, steady: Mask) -> AmidStarts | None:
    """Measure the steps that wait for workers to end and start anew; None where none does."""
    wait, part = session.phase_ns(Phase.DATA_WAIT), session.columns.get(STARTED)
    if wait is None or part is None:
        return None
    started = steady & (part > 0)
    others = steady & ~started
    if not started.any() or not others.any():
        return None
    # The old workers are waited for before the new ones start: all beyond the usual counts.
    more_ns = int((wait[started] - median(wait[others])).clip(min=0).sum())
    steps = int(steady.sum())
    return AmidStarts(round(steps / int(started.sum())), more_ns // steps)


_WORK = {phase.value: phase for phase in (Phase.CALLBACKS, Phase.OTHER)}


@dataclass(frozen=True)
class BetweenEpochs:
    """One callback, or one hook of the module, between epochs and after the last one."""

    phase: Phase
    name: str
    epochs: int
    """How many it was called between."""
    total_ns: int
    longest_ns: int
    """The longest call of its hooks at one end or start."""
    error_frac: float = 0.0
    """Half the 90 % interval of such a call's mean, as a share of it."""


def work_between_epochs(session: Session) -> tuple[BetweenEpochs, ...]:
    """Sum up what each callback and hook took between epochs, the longest first."""
    taken: defaultdict[tuple[Phase, str], list[int]] = defaultdict(list)
    ends: Counter[tuple[Phase, str, str]] = Counter()
    for span in every_step.between_epochs(session):
        for key, ns in span.part_ns.items():
            phase, _, name = key.partition("/")
            if phase in _WORK:
                taken[_WORK[phase], name].append(ns)
                ends[_WORK[phase], name, span.where] += 1
    found = [
        # At an epoch's end and at the next one's start is once.
        BetweenEpochs(
            phase,
            name,
            epochs=max(ends[phase, name, where] for where in ("epoch_end", "epoch_start")),
            total_ns=sum(times),
            longest_ns=max(times),
            error_frac=error_of_mean_frac(np.array(times)),
        )
        for (phase, name), times in taken.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.total_ns))


@dataclass(frozen=True)
class Validations:
    """The validations among all steps, and between epochs; times are means of one of them."""

    count: int
    each_ns: int
    start_ns: int
    """Making the loader's iterator and its workers; 0 in files from before it was measured."""
    first_batch_ns: int
    next_batches_ns: int
    """Waiting for the first batch, and for the others."""
    loader: Loader | None
    """Their loader's settings; None of several that are not alike, or of another kind."""

    @property
    def starts_workers(self) -> bool:
        """Whether each of them starts worker processes of its own."""
        loader = self.loader
        return loader is not None and bool(loader.num_workers) and not loader.persistent_workers

    @property
    def start_again_ns(self) -> tuple[int, int]:
        """How much of the start, and of the wait for the first batch, kept workers save.

        At most all of it. At least the start itself, and of the wait what it is longer than the
        making of one batch, where there are batches enough to show that: two from each worker. Of
        an iterable dataset Lightning fetches the first batch as it makes the iterator.
        """
        workers = self.loader.num_workers if self.loader else None
        batches = self.loader.length if self.loader else None
        whole_ns = self.start_ns + self.first_batch_ns
        ahead = self.loader is not None and self.loader.dataset_kind == "iterable"
        most_made_ns = whole_ns if ahead else self.first_batch_ns
        loaders = (self.loader.loaders if self.loader else None) or 1
        if not workers or not batches or batches < 2 * workers * loaders:
            return whole_ns - most_made_ns, whole_ns
        made_ns = workers * loaders * (self.each_ns - whole_ns) // batches
        return whole_ns - min(most_made_ns, made_ns), whole_ns


def validations(
    session: Session, steady: Mask, every: every_step.EveryStep | None
) -> Validations | None:
    """Return what validations took; None where there was none."""
    count = 0 if every is None else every.flagged.get("validation", 0)
    if every is None or not count:
        return None
    taken = every_step.parts_in_all(session, steady, Phase.VALIDATION)
    start_ns, first_ns, next_ns = (taken[part] for part in FETCHES)
    return Validations(
        count=count,
        each_ns=every.phase_ns.get(Phase.VALIDATION, 0) // count,
        start_ns=start_ns // count,
        first_batch_ns=first_ns // count,
        next_batches_ns=next_ns // count,
        loader=session.start.validation_loader,
    )


@dataclass(frozen=True, kw_only=True)
class EpochTimes:
    """What recurs once per epoch or validation instead of in each step."""

    starts: EpochStarts | None = None
    amid_starts: AmidStarts | None = None
    between: tuple[BetweenEpochs, ...] = ()
    """Time of callbacks and hooks between epochs, the longest first."""
    validations: Validations | None = None
    """None where there was none."""


def epoch_times(session: Session, steady: Mask, every: every_step.EveryStep | None) -> EpochTimes:
    """Measure how epochs begin and end, and the validations."""
    return EpochTimes(
        starts=epoch_starts(session, steady),
        amid_starts=amid_starts(session, steady),
        between=work_between_epochs(session),
        validations=validations(session, steady, every),
    )
