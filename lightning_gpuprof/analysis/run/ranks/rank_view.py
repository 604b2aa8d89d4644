"""A summary of every rank of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.ranks.rank_work import EXCHANGED
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.steady import mean, median
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import RunStart


@dataclass(frozen=True)
class RankView:
    """A summary of a rank: its step, and the mean of every phase per steady step.

    Figures are None if they were not measured.

    Args:
        exchange_ns: The part of `backward` after the rank has computed its own gradients.
        waited_ns: How long it waits for other ranks per step, in that part and elsewhere.
        last_frac: The share of steps in which it waited least, as the last rank to arrive.
        batches: How many batches an epoch has on this rank; None if its loader has no length.
    """

    rank: int
    host: str
    steps: int
    median_ns: int | None
    mean_ns: int | None
    phase_mean_ns: dict[Phase, int]
    status: str
    error: str | None = None
    exchange_ns: int | None = None
    waited_ns: int | None = None
    last_frac: float | None = None
    batches: int | None = None


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
    median_ns = mean_ns = exchange_ns = None
    means: dict[Phase, int] = {}
    if steady is not None:
        dur = session.columns["dur_ns"][steady]
        median_ns, mean_ns = median(dur), mean(dur)
        means = {p: mean(column[steady]) for p, column in session.phases_ns(Phase).items()}
        exchange = session.columns.get(EXCHANGED)
        exchange_ns = None if exchange is None else mean(exchange[steady])
    return RankView(
        rank=rank,
        host=session.start.host,
        steps=session.steps,
        median_ns=median_ns,
        mean_ns=mean_ns,
        phase_mean_ns=means,
        status="open" if session.end is None else session.end.status,
        error=None if session.end is None else session.end.error,
        exchange_ns=exchange_ns,
        waited_ns=None if waits is None else waits.waited_ns.get(rank),
        last_frac=None if waits is None else waits.last_frac.get(rank),
        batches=_batches(session.start),
    )


def _batches(start: RunStart) -> int | None:
    length = None if start.loader is None else start.loader.length
    limit = settings_of(start).limit_train_batches
    if length is None or start.stage != "fit":
        return None
    if limit is None:
        return length
    return min(length, limit) if isinstance(limit, int) else int(length * limit)
