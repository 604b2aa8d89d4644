"""The phase in which a rank works longer than the others, by more than chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.chance import sure_means
from lightning_gpuprof.analysis.run.ranks.rank_steps import RankSteps, Table
from lightning_gpuprof.analysis.run.ranks.rank_work import RankWork, exchanges_of, trains_on_device
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session


@dataclass(frozen=True)
class RankDifference:
    """A rank that surely works longer in a phase than the mean of the other ranks."""

    rank: int
    phase: Phase
    more_ns: int
    """By how much, as a mean per step."""


def rank_difference(
    ranks: Mapping[int, Session], steady: Mapping[int, Mask], *, without: Sequence[Phase] = ()
) -> RankDifference | None:
    """Return the largest difference that is sure; None if ranks differ by chance alone.

    In the phases in `without`, ranks wait for one another.
    """
    order = sorted(steady)
    sessions = [ranks[rank] for rank in order]
    steps = RankSteps(sessions, [steady[rank] for rank in order])
    if not steps:
        return None
    exchanges, timed = exchanges_of(sessions)
    on_device = any(map(trains_on_device, sessions))
    own = RankWork(steps, exchanges or [], timed=timed, on_device=on_device)
    work = own.by_phase(without=without)
    longer = [_longer_than_others(table) for table in work.values()]
    if not longer:
        return None
    rows = np.concatenate(longer)
    means, sure = rows.mean(axis=1), sure_means(rows)
    row = int(np.where(sure > 0, means, -np.inf).argmax())
    if sure[row] <= 0:
        return None
    return RankDifference(
        rank=order[row % len(order)],
        phase=list(work)[row // len(order)],
        more_ns=round(float(means[row])),
    )


def _longer_than_others(table: Table) -> Table:
    count = len(table)
    longer: Table = (count * table - table.sum(axis=0)) / (count - 1)
    return longer
