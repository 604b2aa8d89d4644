"""The trace does not show what compiled regions do.

## Symptom
Much of the traced operators' time is in `Torch-Compiled Region` or `CompiledFunction`.

## Why
Such a region counts as one operator, so no rule can tell what is slow inside it.

## Fix
Record the window uncompiled. On a CPU, `torch._inductor.config.cpp.enable_kernel_profile` shows the
compiled kernels instead.

```python
GpuProfCallback()  # before
GpuProfCallback(compiled="eager")  # after: these steps' arithmetic may differ
```

## How it is measured
`opaque_frac` is the share of the operators' own time in compiled regions, from the trace.

## Limits
The finding is reported from a fifth on, unless the trace names Triton kernels. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Severity
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.units import percent

MIN_FRAC = 0.20
REGIONS = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
EFFORT = Effort(Horizon.QUICK, "one setting while profiling", "none")


@rule(id="opaque-compiled-regions", needs=("operators",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about time inside compiled regions."""
    facts = measured(trace_facts(run))
    operators = facts.operators.values()
    regions = [op for op in operators if op.name.startswith(REGIONS)]
    whole, hidden = sum(op.self_ns for op in operators), sum(op.self_ns for op in regions)
    if any("triton" in row.name for row in facts.analysis.kernels):
        return None
    if not whole or hidden < MIN_FRAC * whole:
        return None
    return Finding(
        severity=Severity.INFO,
        title=f"{percent(hidden / whole)} of the operators' time lies inside compiled regions",
        advice="Record the window uncompiled, which shows its operators.",
        evidence={"opaque_frac": hidden / whole, "opaque_ns": round(hidden)},
        confidence=0.9,
        places=tuple(Place(name=op.name) for op in regions[:3]),
        change='GpuProfCallback(compiled="eager")',
    )
