"""The ranks of a run side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.phase_split import phase_split
from lightning_gpuprof.analysis.steady import steady_mask, step_flags, step_stats
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
    stats = step_stats(session)
    means: dict[Phase, int] = {}
    if stats is not None:
        split = phase_split(session, steady_mask(step_flags(session))[0])
        means = {p: s.per_step.mean_ns for p, s in split.items() if s.per_step is not None}
    return RankView(
        rank=rank,
        host=session.start.host,
        steps=session.steps,
        median_ns=None if stats is None else stats.dur.p50_ns,
        mean_ns=None if stats is None else stats.dur.mean_ns,
        phase_mean_ns=means,
        status="open" if session.end is None else session.end.status,
    )
