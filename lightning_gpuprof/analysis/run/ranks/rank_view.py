"""A summary of every rank of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.ranks.rank_work import EXCHANGED
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.steady import mean, median
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import COLLECTIVES, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import RunStart

_COLLECTIVES = {phase: f"part/{phase.value}/{COLLECTIVES}" for phase in Phase}
"""The columns of collectives that are timed by themselves."""


@dataclass(frozen=True)
class RankView:
    """A summary of a rank: its step, and the mean of every phase per steady step.

    Figures are None if they were not measured.

    Args:
        exchange_ns: The part of `backward` after the rank has computed its own gradients.
        waited_ns: How long it waits for other ranks per step, in that part and elsewhere.
        last_frac: The share of steps in which it waited least, as the last rank to arrive.
        batches: How many batches an epoch has on this rank; None if its loader has no length.
        collectives_ns: By phase, the part in collectives that are timed by themselves.
    """

    rank: int
    host: str
    steps: int
    median_ns: int | None
    mean_ns: int | None
    phase_mean_ns: Mapping[Phase, int]
    status: str
    error: str | None = None
    exchange_ns: int | None = None
    waited_ns: int | None = None
    last_frac: float | None = None
    batches: int | None = None
    collectives_ns: Mapping[Phase, int] | None = None


def rank_views(
    ranks: Mapping[int, Session], steady: Mapping[int, Mask], waits: RankWaits | None
) -> tuple[RankView, ...]:
    """Summarize a session on every rank.

    Args:
        ranks: The session by rank.
        steady: The steps that the figures are of, by rank.
        waits: How long ranks wait for one another, if that is known.
    """
    return tuple(_view(rank, session, steady.get(rank), waits) for rank, session in ranks.items())


def _view(rank: int, session: Session, steady: Mask | None, waits: RankWaits | None) -> RankView:
    step = _steady_step(session, steady) if session.rollup is None else _rolled_step(session)
    return RankView(
        rank=rank,
        host=session.start.host,
        steps=session.recorded_steps,
        median_ns=step.median_ns,
        mean_ns=step.mean_ns,
        phase_mean_ns=step.phase_mean_ns,
        status="open" if session.end is None else session.end.status,
        error=None if session.end is None else session.end.error,
        exchange_ns=step.exchange_ns,
        waited_ns=None if waits is None else waits.waited_ns.get(rank),
        last_frac=None if waits is None else waits.last_frac.get(rank),
        batches=_batches(session.start),
        collectives_ns=step.collectives_ns,
    )


class _Step(NamedTuple):
    median_ns: int | None = None
    mean_ns: int | None = None
    phase_mean_ns: Mapping[Phase, int] = {}
    exchange_ns: int | None = None
    collectives_ns: Mapping[Phase, int] = {}


def _steady_step(session: Session, steady: Mask | None) -> _Step:
    if steady is None:
        return _Step()
    dur = session.columns["dur_ns"][steady]
    exchange = session.columns.get(EXCHANGED)
    return _Step(
        median(dur),
        mean(dur),
        {phase: mean(column[steady]) for phase, column in session.phases_ns(Phase).items()},
        None if exchange is None else mean(exchange[steady]),
        {
            phase: mean(session.columns[name][steady])
            for phase, name in _COLLECTIVES.items()
            if name in session.columns
        },
    )


def _rolled_step(session: Session) -> _Step:
    """Return the step by the rollup: means of all steady steps, the median of stretches."""
    rollup = session.rollup
    if rollup is None or not rollup.steady.any():
        return _Step()
    means = {
        phase: rollup.mean_ns(f"phase/{phase.value}") or 0
        for phase in Phase
        if phase.value in session.start.phases
    }
    middle = median(rollup.median_ns[rollup.steady > 0])
    collectives = {phase: rollup.mean_ns(name) for phase, name in _COLLECTIVES.items()}
    return _Step(
        middle,
        rollup.mean_ns("dur_ns"),
        means,
        rollup.mean_ns(EXCHANGED),
        {phase: ns for phase, ns in collectives.items() if ns is not None},
    )


def _batches(start: RunStart) -> int | None:
    length = None if start.loader is None else start.loader.length
    limit = settings_of(start).limit_train_batches
    if length is None or start.stage != "fit":
        return None
    if limit is None:
        return length
    return min(length, limit) if isinstance(limit, int) else int(length * limit)
