"""The results of comparing the ranks of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.ranks.rank_difference import RankDifference, rank_difference
from lightning_gpuprof.analysis.run.ranks.rank_steps import common_steady
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView, rank_views
from lightning_gpuprof.analysis.run.ranks.rank_waits import (
    RankWaits,
    exchange_at_most,
    rank_waits,
)
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


def rank_results(ranks: Mapping[int, Session], world_size: int) -> RankResults:
    """Compare a session's ranks; `ranks` holds those that have records."""
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
