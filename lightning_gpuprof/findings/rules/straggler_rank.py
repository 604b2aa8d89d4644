"""Some rank is later than the others, and all of them wait for it.

## What it measures
`late_ns`: how much earlier each step's gradients would be exchanged, were the late rank never the
last. Each rank times, in every step, how long it waits at the end of backward from its own last
gradient until all ranks' are there; the one that waits least came last. Steps are matched by
number, so that hosts' clocks need not agree. `uneven_ns`: the mean wait of all ranks, where no rank
is the late one and they take turns.

## Why it matters
A synchronous step is as fast as its slowest rank.

## What to do
Look at what that rank does longer: uneven data (longer samples, a slower disk), a callback on rank
0 alone, another process on its device or cores, a device that lowers its clock. Where it waits for
workers, their lines are told, as in `data-wait`; where it is late in its forward pass, the lines
that surely take more of a step there than on another rank. Where ranks take turns, batches differ:
give each rank equal work, such as samples of like length.

## Thresholds
`WARNING_FRAC`: 5% of the step, the common warning level, above the spread that identical ranks
show; `TURNS_FRAC`, 10%, for turns. `OFTEN`: of turns, one rank is named that is last twice as often
as all others together. A busy machine shows these as well: on a CPU a saving is claimed only where
what a batch decides (`BY_BATCH`) makes up at least `EXPLAINED` of it. `CLEAR`: a rank is the late
one where it costs this many times what another one's chance delays do. Of the lateness stays what
equal ranks wait for one another by chance: at least what the others are late now, at most what its
spread says. Where each phase was timed the steps say more: what others wait less once the rank
takes no longer than they, at least in the phase that is most of it, at most in all. A fifth more or
less goes with a cost (docs/adr/0044, 0031). Severity: the common scale (`findings/grade.py`).
"""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.places import as_late_rank, waits_for_batches
from lightning_gpuprof.findings.worker_places import in_workers
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "straggler-rank"
EFFORT = Effort(Horizon.MEDIUM, "the cause is to be found on that rank", "none")
TURNS_FRAC = 0.10
CLEAR = 2
EXPLAINED = 0.5
OFTEN = 2 / 3
BY_BATCH = (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE, Phase.FORWARD)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where ranks wait for one, for some, or by turns."""
    if run.start.world_size < 2:
        return None
    waits = run.rank_waits
    if waits is None or run.step_ns is None:
        return Abstained(ID, _lacking(run))
    if waits.late_ns >= WARNING_FRAC * run.step_ns and waits.late_ns >= CLEAR * waits.usual_ns:
        return _late(run, waits, run.step_ns)
    if waits.uneven_ns >= TURNS_FRAC * run.step_ns:
        return _turns(run, waits, run.step_ns)
    return None


def _lacking(run: RunResults) -> str:
    if sum(rank.steps > 0 for rank in run.ranks) < 2:
        return f"the records of only one of {run.start.world_size} ranks are here"
    return "it takes the time that each rank's device waits for gradients, which was not measured"


def _late(run: RunResults, waits: RankWaits, step_ns: int) -> Finding:
    least_ns, most_ns = _saved(waits)
    saving = Range(low=around(least_ns)[0], high=around(most_ns)[1])
    one = len(waits.late) == 1
    hosts = sorted({rank.host for rank in run.ranks if rank.rank in waits.late})
    phase = next(iter(waits.causes), None)
    part = waits.part
    late = as_late_rank(run)
    made = in_workers(late) if phase is Phase.DATA_WAIT and waits_for_batches(late) else ""
    what = f", most of it in {_named(phase)}{f' ({part})' if part else ''}" if phase else ""
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{_names(waits.late)} keep{'s' if one else ''} the others waiting for "
        f"{duration(waits.late_ns)} of each step ({percent(waits.late_ns / step_ns)}){what}",
        advice=f"Look at {part or (_named(phase) if phase else 'what is special')} on "
        f"{_names(waits.late).lower()} ({', '.join(hosts)}): uneven data, work that only "
        f"{'this rank does' if one else 'these ranks do'}, or a busy machine. {made}".rstrip(),
        evidence={
            "late_ns": waits.late_ns,
            "last_frac": sum(waits.last_frac[rank] for rank in waits.late),
            **({f"{phase.value}_more_ns": waits.causes[phase]} if phase else {}),
            "uneven_ns": waits.uneven_ns,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=tuple(
            Where(rank=rank, phase=phase.value if phase else None) for rank in waits.late[:4]
        ),
    )


def _saved(waits: RankWaits) -> tuple[int, int]:
    """Return what the step gets shorter by without the first cause, and without all of them."""
    # Without its cause the rank is late by chance, and no less often than the others are now.
    least = max(0, waits.late_ns - max(waits.usual_ns, waits.chance_ns))
    most = waits.late_ns - waits.usual_ns
    if waits.without_more_ns is not None:
        most = min(most, waits.without_more_ns)
    if waits.without_cause_ns is not None:
        least = min(least, max(0, waits.without_cause_ns))
    most = max(0, most)
    return min(least, most), most


def _turns(run: RunResults, waits: RankWaits, step_ns: int) -> Finding:
    """Return ranks' unequal work; a fact without a saving where it may be the machine's doing."""
    phase = next(iter(waits.causes), None)
    others = 1 - 1 / len(waits.waited_ns)
    explained = phase in BY_BATCH and waits.causes[phase] * others >= EXPLAINED * waits.uneven_ns
    saving = Range(low=0, high=waits.uneven_ns if explained or run.on_gpu else 0)
    last = max(waits.last_frac, key=lambda rank: waits.last_frac[rank])
    often = waits.last_frac[last] >= OFTEN
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Ranks wait {duration(waits.uneven_ns)} of each step "
        f"({percent(waits.uneven_ns / step_ns)}) for one another, by turns"
        f"{f', most of it for {_named(phase)}' if phase else ''}",
        advice=_last_first(last, waits.last_frac[last], phase)
        * often
        + "The same step takes some ranks longer than others: give each rank equal work "
        "(batches of similar length), or look for other work on these machines.",
        evidence={
            "uneven_ns": waits.uneven_ns,
            "last_frac": waits.last_frac[last],
            **({f"{phase.value}_more_ns": waits.causes[phase]} if phase else {}),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5,
        where=(Where(phase=phase.value, rank=last if often else None),) if phase else (),
    )


def _last_first(rank: int, frac: float, phase: Phase | None) -> str:
    where = f", at {_named(phase)}" if phase else ""
    return f"Rank {rank} comes last in {percent(frac)} of the steps: look there first{where}. "


def _named(phase: Phase) -> str:
    return "code outside every named phase" if phase is Phase.OTHER else phase.value


def _names(ranks: Sequence[int]) -> str:
    """Name ranks in a sentence.

    >>> _names((2,)), _names((0, 1)), _names(tuple(range(8, 16)))
    ('Rank 2', 'Ranks 0 and 1', 'Ranks 8 to 15')
    """
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"Ranks {ranks[0]} to {ranks[-1]}"
    shown = [str(rank) for rank in ranks[:6]]
    if len(ranks) > 6:
        return f"Ranks {', '.join(shown)} and {len(ranks) - 6} more"
    return f"Ranks {', '.join(shown[:-1])} and {shown[-1]}"
