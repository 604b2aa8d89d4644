"""The results of comparing the ranks of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from typing_extensions import override

from lightning_gpuprof.analysis.run.ranks.rank_difference import RankDifference, rank_difference
from lightning_gpuprof.analysis.run.ranks.rank_steps import common_steady
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView, rank_views
from lightning_gpuprof.analysis.run.ranks.rank_waits import (
    RankWaits,
    exchange_at_most,
    rank_waits,
)
from lightning_gpuprof.analysis.run.ranks.rolled_waits import over_the_run
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session


@dataclass(frozen=True, kw_only=True)
class RankResults:
    """A summary of every rank, and how long ranks wait for one another."""

    views: tuple[RankView, ...] = ()
    waits: RankWaits | None = None
    """None with a single rank, or if the waits of some rank are unknown."""
    difference: RankDifference | None = None
    """None if ranks differ by no more than chance explains."""
    exchange_at_most_ns: int | None = None
    """Set if the records lack the steps of some rank: time per step for communication, or for
    waiting for such a rank."""
    rolled_steps: tuple[int, int] | None = None
    """The first and last step by which ranks are compared, if the figures of `views` come from
    rollups because the records are long."""


def rank_results(ranks: Mapping[int, Session], world_size: int) -> RankResults:
    """Compare a session's ranks; `ranks` holds those that have records.

    Where ranks have rollups, the steps to compare are the same until every rank has recorded more,
    and so are the results.
    """
    rolled = {rank: session.rolled or session for rank, session in ranks.items()}
    if any(session.rollup is None for session in rolled.values()):
        return _compared(ranks, world_size)
    return _compared_once(_SameSessions(rolled), world_size)


def _compared(ranks: Mapping[int, Session], world_size: int) -> RankResults:
    compared = common_steady(ranks)
    complete = len(compared) >= world_size
    waits = rank_waits(ranks, compared) if complete else None
    met = (Phase.FORWARD,) if waits is not None and waits.meets_in_forward else ()
    return RankResults(
        views=rank_views(ranks, compared, waits),
        waits=waits,
        difference=rank_difference(ranks, compared, without=met),
        exchange_at_most_ns=None if complete else exchange_at_most(ranks, compared),
    )


class _SameSessions(dict[int, Session]):
    """Sessions by rank, equal to others if they have the same objects as columns and records."""

    @override
    def __hash__(self) -> int:  # type: ignore[override]  # it is not changed
        return hash(self._parts)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameSessions) and self._parts == other._parts

    @cached_property
    def _parts(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((rank, id(s.columns), id(s.records)) for rank, s in self.items())


@lru_cache(maxsize=1)
def _compared_once(ranks: _SameSessions, world_size: int) -> RankResults:
    numbers = [session.columns["step"] for session in ranks.values() if session.steps]
    first = max((int(of_rank[0]) for of_rank in numbers), default=0)
    last = min((int(of_rank[-1]) for of_rank in numbers), default=0)
    results = _compared(ranks, world_size)
    waits = over_the_run(results.waits, ranks, first)
    return replace(results, waits=waits, rolled_steps=(first, last))
