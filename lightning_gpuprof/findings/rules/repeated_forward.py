"""A module runs again on the same input and computes what it has just computed.

## What it measures
`repeat_ns`: time per step of calls of a module with a tensor that it was given before in the same
batch, unchanged since and with the same weights, whose outputs were equal: from the host's clock in
three of the run's first batches. The longest of such calls is not counted.

## Why it matters
An encoder that two heads each run, an `optimizer_step` that calls the closure besides, or a
`self(x)` for the loss and another for a metric, costs its forward pass once more, and its backward
pass as well where both gradients are used.

## What to do
Call it once, and hand its output to all that need it (`output.detach()` to a metric, or to what
must not train it). Of a parametrization, which runs whenever its weight is read, torch keeps the
output (`parametrize.cached()`): where `rebuilt-weights` tells of its line, this rule does not.

## Thresholds
The backward pass of a repeated call is taken to have the share of the backward pass that the call
has of the forward pass: of all of it in the low bound, of what is spent in operators, and at most
of all calls but one, in the high bound. Where with automatic optimization each call has a backward
pass of its own and the module's `optimizer_step` calls the closure, it is all of the step that the
optimizer's call of it does again: the phases of `WHOLE`. A fifth more or less may go with the cost
(docs/adr/0031). Where outputs differ (a dropout, noise) the calls may be meant so, and nothing is
said, nor of activations that are recomputed on purpose. Without a GPU's own times the low bound on
it is 0: the host's clock shows what was launched. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.once import once
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.findings.rules import rebuilt_weights
from lightning_gpuprof.records.function_calls import function_notes
from lightning_gpuprof.records.module_calls import (
    CallPlace,
    RepeatedModule,
    repeated_forward,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "repeated-forward"
EFFORT = Effort(Horizon.QUICK, "one call, and its output handed on", "none where outputs are equal")
MOST_PLACES = 3
WHOLE = (Phase.FORWARD, Phase.ZERO_GRAD, Phase.BACKWARD, Phase.LOGGING)
EXPLAINS = ("unused-gradients",)
"""What the first pass gives is cleared by the second."""
PARAMETRIZATION = "parametrizations."
"""In the path of torch's modules that compute a weight (`layer.parametrizations.weight.0`)."""


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding for each module that is run again."""
    forward = run.per_step(Phase.FORWARD)
    if run.step_ns is None or forward is None or not forward.mean_ns:
        return Abstained(ID, "no step's forward pass was measured")
    step_ns, forward_ns = run.step_ns, forward.mean_ns
    again = next((one for one in repeated_forward(run.notes) if one.closure is not None), None)
    if again is not None and again.closure is not None:
        return (_whole(run, step_ns, again, again.closure),)
    rebuilt = _rebuilt(run, step_ns)
    return tuple(
        _finding(run, step_ns, forward_ns, module)
        for module in repeated_forward(run.notes)
        if not (PARAMETRIZATION in module.name and any(at in rebuilt for at in module.places))
    )


def _rebuilt(run: RunResults, step_ns: int) -> tuple[CallPlace, ...]:
    """Return the lines that rebuilt-weights tells of."""
    seen = function_notes(run.notes)
    found = None if seen is None else rebuilt_weights.told(seen, step_ns)
    return () if found is None else found.places


def _finding(run: RunResults, step_ns: int, forward_ns: int, module: RepeatedModule) -> Finding:
    low, high = once(
        run,
        forward_ns,
        module.repeat_ns,
        backward_frac=module.backward_frac,
        most_frac=(module.calls - 1) / max(1, module.calls),
    )
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    name = f"self.{module.name}" if module.name else "self(...)"
    call = name if not module.name else f"{name}(x)"
    change = f"output = {call}  # once; then output, not {call}, wherever it is needed"
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{name} runs {module.calls} times a step on the same input{_from(module.places)}: "
        f"calling it once saves {duration(module.repeat_ns)} of the forward pass "
        f"({percent(module.repeat_ns / step_ns)} of the step)"
        + (", and its backward pass" if module.backward_frac else ""),
        advice="Call it once and hand its output to all that need it, detached where it must not "
        "be trained.",
        evidence={
            "repeat_ns": module.repeat_ns,
            "calls_count": module.calls,
            "backward_frac": module.backward_frac,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=(
            *in_forward(module.places[:MOST_PLACES]),
            Where(phase=Phase.FORWARD.value, name=module.name or "self"),
        ),
        change=rebuilt_weights.CACHED if PARAMETRIZATION in module.name else change,
    )


def _whole(run: RunResults, step_ns: int, module: RepeatedModule, closure: CallPlace) -> Finding:
    """Return a finding where all of `training_step` and its backward pass runs again."""
    per_step = (run.per_step(phase) for phase in WHOLE)
    taken_ns = sum(one.mean_ns for one in per_step if one is not None)
    gone_ns = taken_ns * (module.passes - 1) // module.passes
    saving = by_host(*around(gone_ns), step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"training_step and its backward pass run {module.passes} times for each batch, for "
        "optimizer_step calls the closure itself and the optimizer calls it again: "
        f"{duration(gone_ns)} ({percent(gone_ns / step_ns)} of the step)",
        advice="Hand the closure to the optimizer alone, which calls it: the gradients of the "
        "other pass are cleared and computed again.",
        evidence={
            "repeat_ns": gone_ns,
            "calls_count": module.passes,
            "backward_frac": 1.0,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=(Where.at(closure), *(Where(phase=phase.value) for phase in WHOLE)),
        change="optimizer.step(closure=optimizer_closure)  # and no optimizer_closure() before it",
        explains=EXPLAINS,
    )


def _from(places: tuple[CallPlace, ...]) -> str:
    functions = list(dict.fromkeys(place.function for place in places))
    return f" (in {', '.join(functions[:MOST_PLACES])})" if functions else ""
