"""The trace cannot see into compiled regions.

## What it measures
`opaque_frac`: from a trace, the share of operators' own time in compiled regions
(`Torch-Compiled Region`, `CompiledFunction`), under which no operator or kernel is named.

## Why it matters
Time in such a region counts as one operator: the other rules cannot tell what in it is slow.

## What to do
Profile once without `torch.compile`, or let Inductor name and mark its kernels.

## Thresholds
`MIN_FRAC`: below a fifth, the operators that are visible stand for the step. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.findings.no_trace import OPERATORS, no_trace
from lightning_gpuprof.units import percent

ID = "opaque-compiled-regions"
EFFORT = Effort(Horizon.QUICK, "one setting while profiling", "none")
MIN_FRAC = 0.20
REGIONS = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a fact where much of the time is hidden."""
    facts = trace_facts(run)
    if facts is None or not facts.rows("operators"):
        return no_trace(ID, OPERATORS)
    operators = facts.operators.values()
    regions = [op for op in operators if op.name.startswith(REGIONS)]
    whole, hidden = sum(op.self_ns for op in operators), sum(op.self_ns for op in regions)
    if facts.on_device and any("triton" in str(row.get("name")) for row in facts.rows("kernels")):
        return None
    if not whole or hidden < MIN_FRAC * whole:
        return None
    return Finding(
        id=ID,
        severity=Severity.INFO,
        title=f"{percent(hidden / whole)} of the traced operators' time lies inside compiled "
        f"regions",
        advice="Profile once without torch.compile, or have Inductor mark its kernels, to see what "
        "is "
        "slow in there.",
        evidence={"opaque_frac": hidden / whole, "opaque_ns": round(hidden)},
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        where=tuple(Where(name=op.name) for op in regions[:3]),
        change="torch._inductor.config.cpp.enable_kernel_profile = True  # on a CPU",
    )
