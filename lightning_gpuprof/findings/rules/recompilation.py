"""torch.compile compiles again and again during training.

## What it measures
`compiled_steps_count`: steps after the warm-up in which torch.compile compiled something, and
`compiling_ns`: what that took, spread over all steps. Dynamo times it itself; where some steps
compile nothing, what the others take above them is a second measure, and the mean of both counts.
`compiled_early_count`: steps of the warm-up that compiled, each anew.

## Why it matters
A new shape, type or Python value that a compiled function depends on makes it compile anew, for
seconds on a GPU; at the limit (8 by default) torch gives up and runs the function
uncompiled (`compile-limit`).

## What to do
Keep shapes the same (pad to a few lengths, `drop_last=True`), mark what changes
(`torch._dynamo.mark_dynamic`, `dynamic=True`), and see why with `TORCH_LOGS=recompiles`.

## Thresholds
`MIN_STEPS`: after the warm-up a first other shape compiles once; from the second step on it is a
habit. Steps with a validation are not counted, which compiles for itself. The saving is from the
lesser of the two measures to the greater (`uneven/special_steps.py`), per step of all; a steady
step, which compiles nothing, may be far shorter. `LOW_FRAC`: the padded shape is compiled too, and
padding computes more. `MIN_EARLY`: the first step compiles, and the second where a size has changed
or the optimizer has its state by then; a third time is one for each shape that comes. What it cost
comes again whenever the program starts, so it is spread over the steps of this run: all but the
first is saved at most, and all but the first two surely. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.compiling import Compiling
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    When,
    Where,
)
from lightning_gpuprof.records.compiling import compile_limits
from lightning_gpuprof.units import duration

ID = "recompilation"
EFFORT = Effort(Horizon.MEDIUM, "shapes are padded or marked dynamic", "padding computes more")
MIN_STEPS = 2
LOW_FRAC = 0.9
MIN_EARLY = 3
ADVICE = (
    "Keep shapes the same: pad to a few lengths, drop the last batch, or mark what changes "
    "as dynamic."
)
CHANGE = "model = torch.compile(model, dynamic=True)  # and: TORCH_LOGS=recompiles"


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where compiling goes on."""
    if run.step_ns is None or run.compiling is None:
        return Abstained(ID, "no step after the warm-up was recorded")
    seen, costs_ns = run.compiling, run.compiling.costs_per_step_ns
    if seen.count < MIN_STEPS:
        return _early(run, seen, run.step_ns) if len(seen.early_ns) >= MIN_EARLY else None
    if not costs_ns:
        return Abstained(
            ID,
            f"{seen.count} of {seen.steps} steps compiled, and neither dynamo's own timing nor "
            "steps to compare with say what that took",
        )
    cost_ns = round(sum(costs_ns) / len(costs_ns))
    least_ns, most_ns = around(min(costs_ns))[0], around(max(costs_ns))[1]
    saving = Range(low=round(LOW_FRAC * least_ns), high=most_ns)
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"torch.compile compiled in {seen.count} of {seen.steps} steps after the warm-up, "
        f"{duration(cost_ns * seen.steps / seen.count)} each",
        advice=ADVICE + _why(run),
        evidence={
            "compiled_steps_count": seen.count,
            "compiling_ns": cost_ns,
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.9,
        where=_given_up(run),
        when=When.BETWEEN,
        change=CHANGE,
    )


def _early(run: RunResults, seen: Compiling, step_ns: int) -> Finding:
    """Return the finding of a run that compiled again and again in its warm-up alone."""
    count, steps = len(seen.early_ns), seen.steps + len(seen.early_ns)
    again_ns = sum(seen.early_ns[1:])
    surely_ns = around(sum(seen.early_ns[2:]))[0]
    saving = Range(low=round(LOW_FRAC * surely_ns / steps), high=around(again_ns)[1] // steps)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"torch.compile compiled anew in {count} of the first steps, "
        f"{duration(sum(seen.early_ns))} together",
        advice=f"{ADVICE}{_why(run)} It is so at each start; a longer run has less of it per step.",
        evidence={
            "compiled_early_count": count,
            "compiling_ns": again_ns // steps,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=_given_up(run),
        when=When.BETWEEN,
        change=CHANGE,
    )


def _given_up(run: RunResults) -> tuple[Where, ...]:
    """Return where the functions begin that were compiled until torch gave them up."""
    return tuple(Where.at(one.place, name=one.place.function) for one in compile_limits(run.notes))


def _why(run: RunResults) -> str:
    reasons = [one.reason for one in compile_limits(run.notes) if one.reason]
    return f" What failed last: {reasons[0]}." if reasons else ""
