"""The forward pass computes again what it has just computed from the same values.

## What it measures
`repeat_ns`: host time per step of torch functions, between a batch's start and its backward pass,
that were given the same values as before in the same batch, without the longest call of each. What
the same is follows from the functions themselves: the same tensor, not written to since, or what
the same function made of the same. What draws at random is never the same. From two of the run's
first batches.

## Why it matters
What does not change from one turn of a loop to the next (keys of an attention, norms, masks, tables
that are normalised), or is needed in two places, costs its computing each time, and its backward
pass as well.

## What to do
Compute it once, before the loop or where both places can reach it, and hand on what it gave.

## Thresholds
What is a whole module's call is `repeated-forward`'s, of weights alone `rebuilt-weights`', and what
has a cheaper form `brute-force-lookup`'s or `broadcast-pairs`'.
`MIN_FRAC`: nearly every program takes a mean or a shape twice. The backward pass is reckoned as for
repeated modules (`savings/once.py`): with the share of the forward pass, of all of it in the low
bound, of what is spent in operators in the high bound. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.once import once
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import Broadcast, FunctionNotes, RepeatedWork
from lightning_gpuprof.records.lookups import Compared
from lightning_gpuprof.records.module_calls import repeated_forward
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "repeated-operators"
EFFORT = Effort(Horizon.QUICK, "a few lines are moved out of a loop, or their result kept", "none")
MIN_FRAC = 0.01


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each function of the program that computes something again."""
    forward = run.per_step(Phase.FORWARD)
    if forward is None or not forward.mean_ns:
        return ()
    modules = {(at.file, at.line) for one in repeated_forward(run.notes) for at in one.places}
    wide: tuple[Compared | Broadcast, ...] = (*seen.compared, *seen.broadcast)
    cheaper = {(at.file, at.line) for one in wide for at in one.places}
    return tuple(
        _finding(run, step_ns, forward.mean_ns, one)
        for one in seen.repeated
        if one.taken_ns >= MIN_FRAC * step_ns
        and (one.places[0].file, one.places[0].line) not in cheaper
        and not any((at.file, at.line) in modules for at in (*one.places, *one.through))
    )


def _finding(run: RunResults, step_ns: int, forward_ns: int, one: RepeatedWork) -> Finding:
    trained_frac = one.trained_ns / max(1, one.taken_ns)
    low, high = once(
        run, forward_ns, one.taken_ns, backward_frac=trained_frac, most_frac=1 - 1 / one.times
    )
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    at = one.places[0]
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{at.function} computes the same {one.times} times a step, from the same values: "
        f"once would save {duration(one.taken_ns)} of the forward pass "
        f"({percent(one.taken_ns / step_ns)} of the step)"
        + (", and its backward pass" if one.trained_ns else ""),
        advice=f"Nothing that goes into {at.file}:{at.line} changes in between: compute it once, "
        "before the loop or where it is needed first, and hand the result on.",
        evidence={
            "repeat_ns": one.taken_ns,
            "calls_count": one.times,
            "backward_frac": trained_frac,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=in_forward(one.places),
    )
