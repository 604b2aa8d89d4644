"""The ranks of a run side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.distribution import mean, median
from lightning_gpuprof.analysis.run.steady import steady_mask, step_flags
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session


@dataclass(frozen=True)
class RankView:
    """One rank in brief: its step and the mean of each phase per steady step."""

    rank: int
    host: str
    steps: int
    median_ns: int | None
    mean_ns: int | None
    phase_mean_ns: dict[Phase, int]
    status: str


def rank_views(ranks: Mapping[int, Session]) -> tuple[RankView, ...]:
    """Describe the same session of every rank."""
    return tuple(_view(rank, session) for rank, session in ranks.items())


def _view(rank: int, session: Session) -> RankView:
    median_ns = mean_ns = None
    means: dict[Phase, int] = {}
    if session.steps:
        steady, _ = steady_mask(step_flags(session))
        dur = session.columns["dur_ns"][steady]
        median_ns, mean_ns = median(dur), mean(dur)
        for phase in Phase:
            if (column := session.phase_ns(phase)) is not None:
                means[phase] = mean(column[steady])
    return RankView(
        rank=rank,
        host=session.start.host,
        steps=session.steps,
        median_ns=median_ns,
        mean_ns=mean_ns,
        phase_mean_ns=means,
        status="open" if session.end is None else session.end.status,
    )
