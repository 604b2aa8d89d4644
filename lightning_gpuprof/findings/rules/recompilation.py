"""torch.compile compiles again and again, or has given up on a function.

## Symptom
Functions are compiled again, in the first steps or later. At dynamo's limit of versions (8 by
default) torch gives up and runs the function uncompiled.

## Why
Compiled code holds guards: the sizes, types and Python values for which it was made. Where a guard
fails, torch compiles another version, which takes seconds.

## Fix
It depends on the guard that failed, which torch names. A counter of a module becomes a tensor:

```python
self.calls = 0  # before: compiled anew for 0, 1, 2, ...
self.register_buffer("calls", torch.tensor(0))  # after
```

Integers on modules alone can also be compiled for any value:
`torch._dynamo.config.allow_unspec_int_on_nn_module = True`. Sizes that differ:

```python
model = torch.compile(model)  # before
model = torch.compile(model, dynamic=True)  # after; or pad to a few sizes
```

## How it is measured
`compiled_again_count` counts the compilations of what was compiled before, and `compiling_ns` is
what they take by dynamo's own timing, spread over all steps of the run. It includes garbage
collections after them, because compiling makes the objects that cause these.

## Limits
The first compilation is necessary, and a short run spends a larger share on it. So are versions for
layers of several sizes: where torch gives up on these, no time is claimed. Validations and
other layers that the first step compiles are not counted. How much faster a function would be that
runs uncompiled now is not known. Before torch 2.6 steps are counted, not compilations.
"""

from lightning_gpuprof.analysis.run.compiling import Compiling, Reason
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.compile_advice import Remedy, of_limit, remedy
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.records.lines import GuardCause
from lightning_gpuprof.units import duration

MIN_AGAIN = 2
"""One more is usual: for the shorter last batch of an epoch, or once the optimizer has a state."""
LOW_FRAC = 0.9
EARLY_FRAC = 0.1
"""Compilations in this first share of the run are not repeated in a longer one."""
MOST_PLACES = 3
IN_COMPILING_STEPS = ("memory-growth", "step-time-jitter")
"""Where all steps compile: the more versions a function has, the longer the next one takes."""
EFFORT = Effort(Horizon.MEDIUM, "what changes is padded, marked or moved", "padding computes more")
UNKNOWN = Remedy(
    "Keep shapes the same: pad to a few lengths, drop the last batch, or mark what changes "
    "as dynamic.",
    "model = torch.compile(model, dynamic=True)  # and: TORCH_LOGS=recompiles",
    EFFORT,
)


@rule(id="recompilation", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about compiling again, or about a function that torch gave up on."""
    compiling = run.compiled.time
    if compiling is None or (took_ns := compiling.again.took_ns) is None:
        return None
    again = compiling.again
    given_up = next((reason for reason in again.reasons if reason.limit), None)
    if again.count < MIN_AGAIN and given_up is None:
        return None
    cost_ns = (took_ns + compiling.collected_ns) // compiling.steps
    least_ns, most_ns = around(cost_ns)
    main = given_up or next(iter(again.reasons), None)
    change = _remedy(main)
    saving = Range(low=round(LOW_FRAC * least_ns), high=most_ns)
    if main is not None and main.cause is GuardCause.PARAMETER:
        saving = Range(0, 0)  # every version is needed
    return Finding(
        title=_title(compiling, given_up),
        advice=_advice(compiling, change, main),
        evidence={
            "compiled_again_count": again.count,
            "compiled_steps_count": again.steps,
            "compiling_ns": cost_ns,
        },
        saving_ns=saving,
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.9,
        when=When.BETWEEN,
        places=tuple(Place.at(reason.place) for reason in again.reasons[:MOST_PLACES]),
        change=change.change,
        effort=change.effort,
        explains=IN_COMPILING_STEPS if _always_compiles(run) else (),
    )


def _always_compiles(run: RunResults) -> bool:
    """Return whether the steady step itself compiles, because hardly any step does not."""
    return run.steps is not None and run.steps.basis == "compiled"


def _title(compiling: Compiling, given_up: Reason | None) -> str:
    again = compiling.again
    took_ns = again.took_ns or 0
    if given_up is not None:
        function, step = given_up.function.function, given_up.limit_step
        title = f"torch.compile gave up on {function} in step {step:,}"
        if again.count < MIN_AGAIN:
            return title
        return f"{title} after {again.count} recompilations ({duration(took_ns)})"
    mean = duration(took_ns / max(1, again.steps))
    return f"torch.compile compiled again in {again.steps} of {compiling.steps} steps, {mean} each"


def _remedy(reason: Reason | None) -> Remedy:
    if reason is None or (reason.cause is GuardCause.OTHER and not reason.reason):
        return UNKNOWN
    return remedy(reason.cause, subject=reason.subject, reason=reason.reason, value=reason.value)


def _advice(compiling: Compiling, change: Remedy, reason: Reason | None) -> str:
    sentences = [change.advice]
    if reason is not None and reason.reason not in change.advice:
        sentences.append(f"torch's reason: {reason.reason}.")
    if reason is not None and reason.limit:
        function = reason.function.function
        sentences.append(f"Since step {reason.limit_step:,}, {function} runs uncompiled.")
        sentences.append(of_limit(reason.cause, reason.limit))
    last = compiling.again.last_step
    if last is not None and last < EARLY_FRAC * compiling.steps:
        sentences.append("Every run begins with this; a longer one spends less on it per step.")
    return " ".join(sentences)
