"""What Lightning's question whether to stop, put to rank 0 before every batch, costs."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.ranks.rank_steps import RankSteps
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import STOP_CHECK, Phase
from lightning_gpuprof.records.reader import Session

COLUMN = f"part/{Phase.OTHER.value}/{STOP_CHECK}"


@dataclass(frozen=True)
class StopCheck:
    """The question's host time, mean per step.

    Args:
        least_ns: By the rank that is in it least in each step: it came last, so it waited for the
            answer alone and for no other rank.
        usual_ns: By the rank that is in it least on the whole: with its waits for others that are
            late by chance, which meeting more seldom saves too.
    """

    least_ns: int
    usual_ns: int


def stop_check(ranks: Mapping[int, Session], steady: Mapping[int, Mask]) -> StopCheck | None:
    """Measure the question; None where not every rank's is here, or Lightning did not ask.

    Args:
        ranks: The same session of every rank.
        steady: The steps to compare, as `common_steady` gives them.
    """
    order = sorted(steady)
    sessions = [ranks[r] for r in order]
    steps = RankSteps(sessions, [steady[r] for r in order])
    complete = all(COLUMN in one.columns for one in sessions)
    if not steps or not complete or len(order) < sessions[0].start.world_size:
        return None
    asked = steps.named(COLUMN)
    return StopCheck(
        least_ns=round(float(asked.min(axis=0).mean())),
        usual_ns=round(float(asked.mean(axis=1).min())),
    )
