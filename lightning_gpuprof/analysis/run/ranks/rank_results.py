"""How the ranks of a run compare."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.ranks.rank_steps import common_steady
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView, rank_views
from lightning_gpuprof.analysis.run.ranks.rank_waits import (
    RankWaits,
    exchange_at_most,
    rank_waits,
)
from lightning_gpuprof.records.reader import Session


@dataclass(frozen=True, kw_only=True)
class RankResults:
    """Every rank in brief, and how long ranks wait for one another."""

    views: tuple[RankView, ...] = ()
    waits: RankWaits | None = None
    """None with one rank, or where the waits of some rank are unknown."""
    exchange_at_most_ns: int | None = None
    """Per step, where some rank has no steps here: communication, or waiting for such a rank."""


def rank_results(ranks: Mapping[int, Session], world_size: int) -> RankResults:
    """Compare the same session of every rank that has records."""
    compared = common_steady(ranks)
    complete = len(compared) >= world_size
    waits = rank_waits(ranks, compared) if complete else None
    return RankResults(
        views=rank_views(ranks, compared, waits),
        waits=waits,
        exchange_at_most_ns=None if complete else exchange_at_most(ranks, compared),
    )
