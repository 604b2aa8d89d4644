"""Ranks wait for a late rank.

## Symptom
At the gradient sync, ranks wait for one rank, for several ranks, or for changing ranks.

## Why
A synchronous step is as fast as its slowest rank.

## Fix
Find out what takes longer on that rank: its samples, its disk, a callback that only rank 0 runs, or
another process on its machine.

```python
if self.global_rank == 0: self.plot()  # before: in every step
if self.global_rank == 0 and batch_idx % 500 == 0: self.plot()  # after
```

## How it is measured
Each rank times how long it waits in collectives: where `fully_shard` gathers weights and reduces
gradients, where tensor parallelism reduces activations, and from its own last gradient until DDP's
exchange has ended. The rank that waits least came last. Durations are compared, never the clocks of
hosts. A rank is late as far as it also worked longer than the others since they last met, without
this package's own work. `late_ns` is by how much the exchange would be earlier if it took no longer
in the phases that surely take longer there, step by step, and `mean_wait_ns` the mean wait of all
ranks. A rank is named only if the difference is sure: blocks of neighbouring steps are drawn 2,000
times, and in 99 of 100 draws the rank costs more than the others.

If a rank is late only since a step, or was until a step, the figures are of these steps. What is
over saves nothing. The saving of a delay that began later is at least that of the run's mean step,
and at most that of a late step. `so_far_ns` is what all these steps were longer, the delay times
their number, and `so_far_all_ranks_ns` the time of all ranks.

What differs between the late ranks and the others is named: waiting for cores, storage or memory,
batch sizes, clocks and other programs (`core_wait_frac`, `io_stalled_frac`, `page_fault_frac`,
`larger_batch_frac`, `lower_clock_frac`, `other_programs_count`).

## Limits
A rank that is late by less than 5% of the step is not named. On a CPU, waiting for changing ranks
counts as a saving only if their batches explain it: if a phase differs between ranks twice as much
as phases do whose work is always the same (docs/adr/0044), or if the first batches of a step differ
in size between ranks (`larger_batch_frac`).
"""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.ranks.late_reasons import LateReason, Reason
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

TURNS_FRAC = 0.10
EXPLAINED = 0.5
MOSTLY = 0.5
"""A phase is named if it explains this share of the lateness."""
OFTEN = 2 / 3
BY_BATCH = (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE, Phase.FORWARD)
MOST_RANKS = 4
SLOWER = ("slowed-down", "growing-step", "memory-growth")
"""Findings about a step that gets longer, if it does so as a rank begins to be late."""
BY_PHASE = {
    Phase.GARBAGE_COLLECTION: "Full garbage collections take longer there: call gc.freeze() once "
    "the model and data are made, or gc.disable() and gc.collect() in the same step on all ranks.",
    Phase.CHECKPOINT: "It writes checkpoints while the others wait: save less often, or in the "
    "background.",
    Phase.LOGGING: "It logs while the others wait: log in fewer steps.",
}
SHARES = (Reason.CORE_WAIT, Reason.STORAGE, Reason.MEMORY)
"""Reasons that are shares of the time, on the late ranks and on the others."""
REASONS = {
    Reason.CORE_WAIT: "It waits for a core in {late} of the time, the others in {others}: look for "
    "other programs there, and for more processes and threads than cores.",
    Reason.STORAGE: "Its machine waits for storage in {late} of the time, the others in {others}.",
    Reason.MEMORY: "The kernel gives out memory in {late} of its time, elsewhere in {others}: keep "
    "buffers, and look whether its machine runs out of memory.",
    Reason.BATCHES: "Its batches hold {late} more than those of the others: balance their sizes.",
    Reason.CLOCKS: "Its GPU runs at a clock {late} below the others: look at heat and power.",
    Reason.PROGRAMS: "Other programs use its GPU, up to {count} at a time.",
}
EQUAL = (
    "Give each rank equal work (batches of similar length), or look for other work on these "
    "machines."
)
MACHINE = (
    "Phases that do the same work on every rank vary as much, so batches are not the reason: look "
    "for more processes and threads than cores, and for other work on these machines."
)
SIZES = (
    "Batches of a step differ in size between ranks: the largest holds {frac} more than the mean. "
    "Give the ranks batches of alike size: sort or group samples by length, or balance the sum."
)
SIZES_FRAC = 0.05
"""Ranks whose batches differ by less take equally long."""
SIZE_LOW_FRAC = 0.5
"""The least share of the time by which larger batches should take longer that equal ones save:
part of the work does not depend on the size."""
EFFORT = Effort(Horizon.MEDIUM, "the cause must be looked for on that rank", "none")


@rule(id="straggler-rank", needs=("training", "rank waits"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about ranks that wait for late or for changing ranks."""
    if run.start.world_size < 2 or run.step_ns is None:
        return None
    waits = measured(run.ranks.waits)
    if waits.sure_ns is not None and waits.delay_ns >= WARNING_FRAC * run.step_ns:
        return _late(run, waits)
    if waits.mean_wait_ns >= TURNS_FRAC * run.step_ns:
        return _turns(run, waits, run.step_ns)
    return None


def _late(run: RunResults, waits: RankWaits) -> Finding:
    phase, blamed_ns = _blamed(waits)
    names = _names(waits.late)
    several = len(waits.late) > 1
    since, until = (None, None) if waits.span is None else (waits.span.since, waits.span.until)
    sure_ns = min(blamed_ns, measured(waits.sure_ns))
    by = duration(blamed_ns)
    if until is None:
        by += f" ({percent(blamed_ns / waits.step_ns)})"
    verb = ("delay" if several else "delays") if until is None else "delayed"
    at = f" {_in(phase)}" if phase else ""
    over = "" if since is None else f" since step {since:,}"
    if until is not None:
        begin = "" if since is None else f" from step {since:,}"
        over = f"{begin} until step {until:,}: over"
    so_far_ns = waits.delay_ns * waits.steps
    began = since is not None and until is None
    return Finding(
        severity=Severity.BY_SAVING if until is None else Severity.INFO,
        title=f"{names} {verb} each step by {by}{at}{over}",
        advice=_advice(run, waits, phase) + _cost_so_far(run, so_far_ns, waits.steps),
        evidence={
            "late_ns": waits.delay_ns,
            "last_frac": sum(waits.last_frac[rank] for rank in waits.late),
            **({f"{phase.value}_more_ns": waits.causes[phase]} if phase else {}),
            "mean_wait_ns": waits.mean_wait_ns,
            **evidence_of(since_step_count=since, until_step_count=until),
            **_evidence_of(waits.reasons),
            "late_steps_count": waits.steps,
            "so_far_ns": so_far_ns,
            "so_far_all_ranks_ns": so_far_ns * run.start.world_size,
        },
        saving_ns=_of_mean_step(waits, around(sure_ns)[0], around(waits.delay_ns)[1]),
        cause_ns=_of_mean_step(waits, waits.delay_ns, around(waits.delay_ns)[1]),
        confidence=0.8,
        places=(
            *(
                Place(rank=rank, phase=phase.value if phase else None)
                for rank in waits.late[:MOST_RANKS]
            ),
            # A rank that waits for the late one is slower since then, too.
            *((Place(phase=waits.waits_in.value),) if began and waits.waits_in else ()),
        ),
        explains=SLOWER if began else (),
    )


def _of_mean_step(waits: RankWaits, low_ns: int, high_ns: int) -> Range:
    """Return the range from a time's share of the run's mean step to what it is in late steps.

    The first is what the run would have saved, the second what it would save from now on. A delay
    that is over saves nothing any more.
    """
    if waits.span is not None and waits.span.until is not None:
        return Range(0, 0)
    return Range(round(low_ns * waits.steps_frac), high_ns)


def _advice(run: RunResults, waits: RankWaits, phase: Phase | None) -> str:
    hosts = sorted({view.host for view in run.ranks.views if view.rank in waits.late})
    place = "all that it does"
    if phase is not None:
        place = waits.part or f"what it does {_in(phase)}"
    names = waits.group or _names(waits.late).lower()
    look = f"Look at {place} on {names} ({', '.join(hosts)})"
    known = [_reason(reason) for reason in waits.reasons]
    if phase in BY_PHASE:
        known.insert(0, BY_PHASE[phase])
    if known:
        return f"{look}. {' '.join(known)}"
    return f"{look}: uneven data, work that only runs there, or a busy machine."


def _reason(reason: LateReason) -> str:
    return REASONS[reason.reason].format(
        late=percent(reason.late), others=percent(reason.others), count=round(reason.late)
    )


def _evidence_of(reasons: Sequence[LateReason]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for reason in reasons:
        name = reason.reason.value
        if reason.reason is Reason.PROGRAMS:
            figures[f"{name}_count"] = round(reason.late)
        else:
            figures[f"{name}_frac"] = reason.late
        if reason.reason in SHARES:
            figures[f"others_{name}_frac"] = reason.others
    return figures


def _cost_so_far(run: RunResults, so_far_ns: int, steps: int) -> str:
    """Return the sentence on what the delay has cost in the steps that were compared."""
    ranks = run.start.world_size
    whose = "of GPUs" if run.on_gpu else "of all ranks"
    return (
        f" It has cost {duration(so_far_ns)} in {steps:,} steps, "
        f"{duration(so_far_ns * ranks)} {whose}."
    )


def _blamed(waits: RankWaits) -> tuple[Phase | None, int]:
    """Return the phase in which the late ranks take longer, and how much of the delay it explains.

    If none explains most of the delay, it is all of it, and no phase is named.
    """
    phase, more_ns = next(iter(waits.causes.items()), (None, 0))
    if phase is None or more_ns < MOSTLY * waits.delay_ns:
        return None, waits.delay_ns
    return phase, min(more_ns, waits.delay_ns)


def _turns(run: RunResults, waits: RankWaits, step_ns: int) -> Finding:
    """Return the finding about unequal work of ranks.

    No saving is claimed if the machine may be the reason.
    """
    phase = next((phase for phase in waits.turns if phase in waits.unequal), None)
    others = 1 - 1 / len(waits.waited_ns)
    explained = phase in BY_BATCH and waits.turns[phase] * others >= EXPLAINED * waits.mean_wait_ns
    larger_frac = _larger_frac(run)
    low_ns = 0.0
    if larger_frac >= SIZES_FRAC:
        explained = True
        low_ns = SIZE_LOW_FRAC * min(waits.mean_wait_ns, larger_frac / (1 + larger_frac) * step_ns)
    most_ns = waits.mean_wait_ns if explained or run.on_gpu else 0
    saving = Range(low=round(low_ns), high=most_ns)
    last = max(waits.last_frac, key=lambda rank: waits.last_frac[rank])
    often = waits.sure_ns is not None and last in waits.late and waits.last_frac[last] >= OFTEN
    at = f" {_in(phase)}" if phase else ""
    advice = EQUAL if phase is not None or run.on_gpu else MACHINE
    if larger_frac >= SIZES_FRAC:
        advice = SIZES.format(frac=percent(larger_frac))
    if often:
        share = percent(waits.last_frac[last])
        advice = f"Rank {last} comes last in {share} of the steps: look there{at} first. {advice}"
    return Finding(
        title=f"Ranks wait {duration(waits.mean_wait_ns)} of each step "
        f"({percent(waits.mean_wait_ns / step_ns)}) for changing ranks",
        advice=advice,
        evidence={
            "mean_wait_ns": waits.mean_wait_ns,
            "last_frac": waits.last_frac[last],
            **({"larger_batch_frac": larger_frac} if larger_frac else {}),
            **({f"{phase.value}_more_ns": waits.turns[phase]} if phase else {}),
        },
        saving_ns=saving,
        cause_ns=Range(waits.mean_wait_ns, waits.mean_wait_ns),
        confidence=0.5,
        places=(Place(phase=phase.value, rank=last if often else None),) if phase else (),
    )


def _larger_frac(run: RunResults) -> float:
    """Return by how much the largest batch of a step exceeds the mean of all ranks' batches.

    It is the mean over the first batches, and 0 unless every rank recorded their sizes.
    """
    each = [batches.sizes for batches in run.facts.batch_sizes]
    if len(each) < run.start.world_size:
        return 0.0
    steps: list[tuple[int, ...]] = list(zip(*each, strict=False))
    largest = sum(max(sizes) for sizes in steps)
    whole = sum(sum(sizes) for sizes in steps)
    return max(0.0, largest * len(each) / max(1, whole) - 1.0)


def _in(phase: Phase) -> str:
    return "outside named phases" if phase is Phase.OTHER else f"in {phase.value}"


def _names(ranks: Sequence[int]) -> str:
    """Return the names of ranks for a sentence.

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
