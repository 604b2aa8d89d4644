"""An activation is written out in elementwise functions, where torch has one for all of it.

## What it measures
Chains of elementwise functions of one tensor whose values are those of `gelu` (both forms), `silu`,
`mish`, `softplus` or `hardswish`, to 1e-5, in two of the run's first batches. `written_ns`: what
the usual written form took in a trial with a tensor of that size, forward and, where gradients go
back, backward; `fused_ns`: the same of torch's own function; `forward_ns`: the host time of the
chain itself, forward.

## Why it matters
Each function reads and writes the whole tensor, and most keep it for the backward pass, which
passes over it as often again. torch's own function passes over it once each way and keeps one.

## What to do
Call torch's function: the values are the same but for the last digits.

## Thresholds
`MIN_FRAC`: less is hardly worth a change. `LOW_FRAC` to `HIGH_FRAC` of the trial's difference: in
training caches hold other things, and memory may be mapped anew (docs/adr/0031). What is found is
told on a CPU alone: to read values on a GPU would make the host wait. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.activations import WrittenActivation
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.units import duration, percent

ID = "unfused-activation"
EFFORT = Effort(Horizon.QUICK, "one call in place of several", "results differ in the last digits")
MIN_FRAC = 0.01
LOW_FRAC, HIGH_FRAC = 0.6, 1.5


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each line that ends a written-out activation."""
    least_ns = MIN_FRAC * step_ns
    return tuple(
        _finding(run, step_ns, one)
        for one in seen.activations
        if one.written_ns - one.fused_ns >= least_ns
    )


def _finding(run: RunResults, step_ns: int, one: WrittenActivation) -> Finding:
    gone_ns = one.written_ns - one.fused_ns
    low, high = round(LOW_FRAC * gone_ns), round(HIGH_FRAC * gone_ns)
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.call} is written out in {one.functions} functions, {one.calls} times a step: "
        f"{duration(gone_ns)} more than torch's own ({percent(gone_ns / step_ns)} of the step), as "
        "a trial showed",
        advice="torch's own function computes the same in one pass over the tensor each way, and "
        "keeps one tensor for the backward pass.",
        evidence={
            "written_ns": one.written_ns,
            "fused_ns": one.fused_ns,
            "forward_ns": one.taken_ns,
            "functions_count": one.functions,
            "calls_count": one.calls,
            "numbers_count": one.numbers,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=in_forward(one.places),
        change=f"y = torch.nn.functional.{one.call}",
    )
