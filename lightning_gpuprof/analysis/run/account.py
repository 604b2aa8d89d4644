"""The account of a run: all of its wall time, as useful work or as shares with a name.

The account adds up: the work on batches, this package's own time, all shares, and what no record
covers are the wall time of the session.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lightning_gpuprof.analysis.run.compiling import Compiling
from lightning_gpuprof.analysis.run.phase_split import Part, PhaseStats
from lightning_gpuprof.analysis.run.sessions import WallTime
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.steady import error_of_mean_frac, median, step_flags
from lightning_gpuprof.records.phases import (
    BATCH_WORK,
    FETCHES,
    LOADER_HOOKS,
    OWN_CALLBACKS,
    STOP_CHECK,
    TRANSFER_HOOKS,
    Phase,
)
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNTIMED_STEPS, OutsideSpan, StepFlag

ONCE_FRAC, ONCE_OF_TWO_FRAC = 0.5, 0.75
"""If a single time took more than this share of the total, the work may not come again. Of work
that was done twice, the longer time must be three times the shorter."""


class Rhythm(str, Enum):
    """How often the work of a share is done."""

    STEP = "step"
    EPOCH = "epoch"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    ONCE = "once"


class Kind(str, Enum):
    """Whose time a share is. What can be done about it follows from this."""

    DATA_WAIT = "data_wait"
    LOADER_HOOK = "loader_hook"
    """A hook that creates loaders, such as `train_dataloader`."""
    HOOK = "hook"
    """Any other hook of the module or the data module."""
    CALLBACK = "callback"
    LOGGER = "logger"
    PROFILER = "profiler"
    """The user's own profiler, in `trainer.profiler`."""
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    GARBAGE_COLLECTION = "garbage_collection"
    COMPILING = "compiling"
    """torch.compile, in the steps of training."""
    LOOP = "loop"
    """What no hook and no phase claims, such as the loop of Lightning itself."""


_KINDS = {
    Phase.DATA_WAIT: Kind.DATA_WAIT,
    Phase.CALLBACKS: Kind.CALLBACK,
    Phase.LOGGING: Kind.LOGGER,
    Phase.VALIDATION: Kind.VALIDATION,
    Phase.CHECKPOINT: Kind.CHECKPOINT,
    Phase.GARBAGE_COLLECTION: Kind.GARBAGE_COLLECTION,
}
_WHOLE = (Phase.CHECKPOINT, Phase.GARBAGE_COLLECTION)
"""Phases whose parts are not told apart."""
_COLLECTED = f"{Phase.GARBAGE_COLLECTION.value}/"
_RHYTHMS = {Phase.VALIDATION: Rhythm.VALIDATION, Phase.CHECKPOINT: Rhythm.CHECKPOINT}


@dataclass(frozen=True)
class Share:
    """A part of the wall time that is no work on batches."""

    kind: Kind
    phase: Phase
    name: str | None
    """The hook, or the class of the callback, logger or profiler; None for the rest of a phase."""
    rhythm: Rhythm
    count: int
    """How many times it took time: in so many steps, epochs, validations or saves."""
    total_ns: int
    longest_ns: int
    error_frac: float = 0.0
    """Half the 90% interval of the mean time, as a share of it."""

    @property
    def each_ns(self) -> int:
        """The mean time."""
        return self.total_ns // max(1, self.count)


@dataclass(frozen=True)
class Account:
    """All wall time of a session."""

    wall_ns: int
    work_ns: int
    """Work on training batches: copies to the device, forward, backward, optimizer."""
    measuring_ns: int
    """Time of this package's own callbacks."""
    shares: tuple[Share, ...]
    """All other time that was recorded, the longest share first."""

    @property
    def unrecorded_ns(self) -> int:
        """Wall time that no record covers."""
        shares_ns = sum(share.total_ns for share in self.shares)
        return max(0, self.wall_ns - self.work_ns - self.measuring_ns - shares_ns)

    @property
    def once_ns(self) -> int:
        """The time of all shares that do not come again in a longer run."""
        return sum(share.total_ns for share in self.shares if share.rhythm is Rhythm.ONCE)

    @property
    def recurring(self) -> tuple[Share, ...]:
        """The shares that come again in a longer run, the longest first."""
        return tuple(share for share in self.shares if share.rhythm is not Rhythm.ONCE)

    def frac(self, time_ns: float) -> float:
        """Return a time as a share of the wall time."""
        return time_ns / max(1, self.wall_ns)


_Key = tuple[Phase, str | None]


def run_account(
    session: Session,
    wall: WallTime,
    phases: Mapping[Phase, PhaseStats],
    parts: tuple[Part, ...],
    flagged: Mapping[str, int],
    compiling: Compiling | None = None,
) -> Account | None:
    """Divide a session's wall time into work and shares; None if nothing was recorded.

    Args:
        session: The session.
        wall: Its wall time.
        phases: The time of every phase over the whole session.
        parts: The same of all named parts.
        flagged: The number of validations and checkpoints, by the name of their `StepFlag`.
        compiling: What torch.compile took; None if it is not known.
    """
    if not phases or not wall.wall_ns:
        return None
    spans = [span for span in session.all(OutsideSpan) if span.where != UNTIMED_STEPS]
    profiler = settings_of(session.start).profiler
    outside = [*_between_epochs(spans), *_once(spans)]
    in_steps = list(_in_steps(session, phases, parts, spans, flagged))
    work_ns = measuring_ns = 0
    shares: list[Share] = []
    for share in _added_up(map(_marked_once, _added_up([*in_steps, *outside]))):
        if _is_work(share):
            work_ns += share.total_ns
        elif share.phase is Phase.CALLBACKS and share.name in OWN_CALLBACKS:
            measuring_ns += share.total_ns
        elif share.phase is Phase.CALLBACKS and share.name == profiler is not None:
            shares.append(replace(share, kind=Kind.PROFILER))
        else:
            shares.append(share)
    for share in _compiling(compiling, work_ns):
        shares.append(share)
        work_ns -= share.total_ns
    shares.sort(key=lambda share: -share.total_ns)
    return Account(wall.wall_ns, work_ns, measuring_ns, tuple(shares))


def _in_steps(
    session: Session,
    phases: Mapping[Phase, PhaseStats],
    parts: tuple[Part, ...],
    spans: list[OutsideSpan],
    flagged: Mapping[str, int],
) -> Iterator[Share]:
    """Yield the shares in steps, with the work on batches."""
    outside = Counter[_Key]()
    for span in spans:
        for key, ns in _times(span).items():
            outside[key] += ns
    by_key: defaultdict[_Key, list[Part]] = defaultdict(list)
    for part in parts:
        by_key[_key(part.phase, part.name)].append(part)
    timed = max(1, session.steps)
    untimed = sum(span.steps for span in session.all(OutsideSpan))
    for phase, stats in phases.items():
        named_ns = 0
        for key, of_key in by_key.items():
            if key[0] is not phase or key[1] is None:
                continue
            total_ns = sum(part.total_ns for part in of_key)
            named_ns += total_ns
            active_steps = max(part.active_steps for part in of_key)
            longest = [part.per_step.max_ns for part in of_key if part.per_step is not None]
            errors = [part.per_step.error_frac for part in of_key if part.per_step is not None]
            yield _share(
                key,
                _RHYTHMS.get(phase, Rhythm.STEP),
                flagged.get(phase.value, 0) or round(active_steps * (timed + untimed) / timed),
                total_ns - outside[key],
                max(longest, default=0),
                max(errors, default=0.0),
            )
        per_step = stats.per_step
        active_frac = per_step.active_frac if per_step else 1.0
        rest = _share(
            (phase, None),
            _RHYTHMS.get(phase, Rhythm.STEP),
            flagged.get(phase.value, 0) or round(active_frac * (timed + untimed)),
            stats.total_ns - named_ns - outside[phase, None],
            per_step.max_ns if per_step else 0,
            per_step.error_frac if per_step else 0.0,
        )
        yield from _apart_from_epoch_starts(session, rest) if phase is Phase.DATA_WAIT else [rest]


def _apart_from_epoch_starts(session: Session, wait: Share) -> Iterator[Share]:
    """Yield the wait for batches, and by how much it is longer as epochs begin."""
    column = session.phase_ns(Phase.DATA_WAIT)
    first = (step_flags(session) & StepFlag.EPOCH_START) != 0
    if column is None or not first.any() or first.all():
        yield wait
        return
    excess = (column[first] - median(column[~first])).clip(min=0)
    again = excess[1:]
    longest_ns = int(column[~first].max())
    rest_ns = wait.total_ns - int(excess.sum())
    yield replace(wait, total_ns=rest_ns, longest_ns=longest_ns)
    yield replace(wait, rhythm=Rhythm.ONCE, count=1, total_ns=int(excess[0]))
    if len(again):
        yield replace(
            wait,
            rhythm=Rhythm.EPOCH,
            count=len(again),
            total_ns=int(again.sum()),
            longest_ns=int(again.max()),
            error_frac=error_of_mean_frac(again),
        )


def _between_epochs(spans: list[OutsideSpan]) -> Iterator[Share]:
    """Yield the shares between epochs, and after the last epoch."""
    times_ns: defaultdict[_Key, list[int]] = defaultdict(list)
    spans_with: Counter[tuple[_Key, str]] = Counter()
    for span in spans:
        if not span.where.startswith("epoch"):
            continue
        for key, ns in _times(span).items():
            times_ns[key].append(ns)
            spans_with[key, span.where] += 1
    for key, times in times_ns.items():
        # The end of an epoch and the start of the next count once together.
        count = max(spans_with[key, where] for where in ("epoch_end", "epoch_start"))
        rhythm = _RHYTHMS.get(key[0], Rhythm.EPOCH)
        error_frac = error_of_mean_frac(np.array(times))
        yield _share(key, rhythm, count, sum(times), max(times), error_frac)


def _once(spans: list[OutsideSpan]) -> Iterator[Share]:
    """Yield the shares before the first epoch and after training."""
    for span in spans:
        if not span.where.startswith("epoch"):
            for key, ns in _times(span).items():
                yield _share(key, Rhythm.ONCE, 1, ns, ns)


def _times(span: OutsideSpan) -> Counter[_Key]:
    """Return a span's time by phase and name; what has no name is under None.

    A garbage collection counts as time of the hook or callback that was running.
    """
    times = Counter[_Key]()
    for phase, ns in span.phase_ns.items():
        times[Phase(phase), None] += ns
    for part, ns in span.part_ns.items():
        phase, _, name = part.partition("/")
        key = _key(Phase(phase), name)
        if key[1] is not None:
            times[key] += ns
            times[Phase(phase), None] -= ns
    by_name = {name: (phase, name) for phase, name in times if name is not None}
    for part, ns in span.part_ns.items():
        name = part.removeprefix(_COLLECTED)
        if name != part and name in by_name:
            times[by_name[name]] += ns
            times[Phase.GARBAGE_COLLECTION, None] -= ns
    return Counter({key: ns for key, ns in times.items() if ns > 0})


def _key(phase: Phase, part: str) -> _Key:
    """Return the share that a part belongs to: one of its own, or the rest of its phase."""
    if phase is Phase.DATA_WAIT:
        named = part in LOADER_HOOKS
    elif phase in BATCH_WORK:
        named = part in TRANSFER_HOOKS
    else:
        named = phase not in _WHOLE and part not in (*FETCHES, STOP_CHECK)
    return phase, part if named else None


def _share(
    key: _Key, rhythm: Rhythm, count: int, total_ns: int, longest_ns: int, error_frac: float = 0.0
) -> Share:
    phase, name = key
    kind = _KINDS.get(phase, Kind.LOOP if name is None else Kind.HOOK)
    if name in LOADER_HOOKS:
        kind = Kind.LOADER_HOOK
    elif phase is Phase.VALIDATION and name is not None:
        kind = Kind.HOOK
    return Share(kind, phase, name, rhythm, max(1, count), total_ns, longest_ns, error_frac)


def _compiling(compiling: Compiling | None, most_ns: int) -> Iterator[Share]:
    """Yield the time of first compilations, and of compiling again; together at most `most_ns`."""
    if compiling is None:
        return
    whole_ns = min(most_ns, compiling.whole_ns)
    again_ns = min(whole_ns, compiling.again.took_ns or 0)
    for rhythm, count, total_ns in (
        (Rhythm.ONCE, 1, whole_ns - again_ns),
        (Rhythm.STEP, compiling.again.steps, again_ns),
    ):
        if total_ns:
            yield Share(
                Kind.COMPILING, Phase.FORWARD, "torch.compile", rhythm, max(1, count), total_ns, 0
            )


def _added_up(shares: Iterable[Share]) -> list[Share]:
    """Add up the shares of the same name and rhythm, and leave out those that took no time."""
    groups: defaultdict[tuple[Phase, str | None, Rhythm], list[Share]] = defaultdict(list)
    for share in shares:
        if share.total_ns > 0:
            groups[share.phase, share.name, share.rhythm].append(share)
    return [
        replace(
            max(group, key=lambda share: share.total_ns),
            count=max(share.count for share in group),
            total_ns=sum(share.total_ns for share in group),
            longest_ns=max(share.longest_ns for share in group),
        )
        for group in groups.values()
    ]


def _marked_once(share: Share) -> Share:
    """Return a share as that of a single time, if that took most of it."""
    may_be_once = share.rhythm in (Rhythm.STEP, Rhythm.EPOCH) or share.name in LOADER_HOOKS
    if not may_be_once or _is_work(share):
        return share
    once_frac = ONCE_OF_TWO_FRAC if share.count == 2 else ONCE_FRAC
    is_once = share.count == 1 or share.longest_ns > once_frac * share.total_ns
    return replace(share, rhythm=Rhythm.ONCE, count=1) if is_once else share


def _is_work(share: Share) -> bool:
    return share.phase in BATCH_WORK and share.name is None
