"""torch.compile compiles again and again during training.

## Symptom
Steps after the warm-up still compile something, or three or more of the first steps did.

## Why
A new shape, type or Python value makes torch compile a function again, which takes seconds on a
GPU. At dynamo's limit (8 by default) torch gives up and runs the function uncompiled.

## Fix
Pad to a few lengths, drop the last batch, or mark what changes. `TORCH_LOGS=recompiles` prints the
reason.

```python
model = torch.compile(model)  # before
model = torch.compile(model, dynamic=True)  # after
```

## How it is measured
`compiled_steps_count` counts the steps that compile, and `compiling_ns` is their extra time, spread
over all steps. It is bounded by dynamo's own timing and by how much longer these steps take.

## Limits
Steps with a validation are not counted. A padded shape must be compiled too, and padding computes
more.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.units import duration

MIN_STEPS = 2
MIN_EARLY = 3
"""Fewer are usual: the first step compiles, and the second may, once the optimizer has its
state."""
LOW_FRAC = 0.9
MOST_PLACES = 3
RECOMPILATION = "recompilation"
ADVICE = (
    "Keep shapes the same: pad to a few lengths, drop the last batch, or mark what changes "
    "as dynamic."
)
CHANGE = "model = torch.compile(model, dynamic=True)  # and: TORCH_LOGS=recompiles"
EFFORT = Effort(Horizon.MEDIUM, "shapes are padded or marked dynamic", "padding computes more")


@rule(id="recompilation", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about compiling in later steps, or in many of the first steps."""
    compiling = run.compiled.time
    if compiling is None:
        return None
    if compiling.count >= MIN_STEPS and compiling.cost_ns is not None:
        cost_ns, name = compiling.cost_ns // compiling.steps, "compiled_steps"
        least_ns, most_ns = around(cost_ns)
        saving = Range(low=round(LOW_FRAC * least_ns), high=most_ns)
        count, confidence, advice = compiling.count, 0.9, ADVICE
        mean = duration(cost_ns * compiling.steps / count)
        title = f"in {count} of {compiling.steps} steps, {mean} each"
    elif compiling.count < MIN_STEPS and len(compiling.early_ns) >= MIN_EARLY:
        count, steps = len(compiling.early_ns), compiling.steps + len(compiling.early_ns)
        again_ns, surely_ns = sum(compiling.early_ns[1:]), around(sum(compiling.early_ns[2:]))[0]
        saving = Range(low=round(LOW_FRAC * surely_ns / steps), high=around(again_ns)[1] // steps)
        cost_ns, name, confidence = again_ns // steps, "compiled_early", 0.8
        advice = f"{ADVICE} Every run begins with this; a longer run spends less on it per step."
        together = duration(sum(compiling.early_ns))
        title = f"again in {count} of the first steps, {together} together"
    else:
        return None
    recompiled = [event for event in run.compiled.events if event.what == RECOMPILATION]
    if recompiled:
        advice = f"{advice} torch's reason: {recompiled[-1].reason}."
    return Finding(
        title=f"torch.compile compiled {title}",
        advice=advice,
        evidence={f"{name}_count": count, "compiling_ns": cost_ns},
        saving_ns=saving,
        cause_ns=Range(cost_ns, cost_ns),
        confidence=confidence,
        when=When.BETWEEN,
        places=tuple(Place.at(event.place) for event in recompiled[-MOST_PLACES:]),
        change=CHANGE,
    )
