"""One rank is slower than the others, and all of them wait for it.

## What it measures
`own_ns`: each rank's mean time per steady step outside of the backward pass, in which gradients are
exchanged and faster ranks wait; a rank whose own time lies above the median of all ranks.

## Why it matters
A synchronous step is as fast as its slowest rank.

## What to do
Look at that rank's longest phase: uneven data (longer samples, a slower disk), a callback on rank 0
alone, another process on its device or cores, a device that lowers its clock.

## Thresholds
`MIN_FRAC`: 5% of the step, the common warning level, above the spread that identical ranks show.
The others' backward must be longer by at least `WAITED` of the difference: otherwise nobody waited.
Severity: the common scale (`findings/grade.py`).
"""

from statistics import median

from lightning_gpuprof.analysis.run.rank_view import RankView
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "straggler-rank"
EFFORT = Effort(Horizon.MEDIUM, "the cause is to be found on that rank", "none")
WAITED = 0.5


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where one rank holds the others up."""
    if run.start.world_size < 2:
        return None
    ranks = [rank for rank in run.ranks if rank.mean_ns and rank.phase_mean_ns]
    if len(ranks) < 2 or run.step_ns is None:
        return Abstained(ID, "the records of only one rank are here")
    own = {rank.rank: _own_ns(rank) for rank in ranks}
    slowest = max(ranks, key=lambda rank: own[rank.rank])
    others = [rank for rank in ranks if rank is not slowest]
    usual = round(median(own[rank.rank] for rank in others))
    late = own[slowest.rank] - usual
    waited = median(_backward_ns(rank) for rank in others) - _backward_ns(slowest)
    if late < WARNING_FRAC * run.step_ns or waited < WAITED * late:
        return None
    phase = _longest_above(slowest, others)
    saving = Range(low=round(min(waited, late) * 0.8), high=late)
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"Rank {slowest.rank} takes {duration(late)} longer than the others in each step "
        f"({percent(late / run.step_ns)}), most of it in {phase.value}",
        advice=f"Look at {phase.value} on rank {slowest.rank} ({slowest.host}): uneven data, work "
        f"that "
        "only this rank does, or a busy machine.",
        evidence={
            "own_ns": own[slowest.rank],
            "others_own_ns": usual,
            "waited_ns": round(waited),
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=(Where(rank=slowest.rank, phase=phase.value),),
    )


def _own_ns(rank: RankView) -> int:
    return sum(ns for phase, ns in rank.phase_mean_ns.items() if phase is not Phase.BACKWARD)


def _backward_ns(rank: RankView) -> int:
    return rank.phase_mean_ns.get(Phase.BACKWARD, 0)


def _longest_above(slowest: RankView, others: list[RankView]) -> Phase:
    def above(phase: Phase) -> float:
        usual = median(rank.phase_mean_ns.get(phase, 0) for rank in others)
        return slowest.phase_mean_ns[phase] - usual

    phases = [phase for phase in slowest.phase_mean_ns if phase is not Phase.BACKWARD]
    return max(phases, key=above)
