"""One kernel takes most of the device's time, and no rule knows why.

## What it measures
`kernel_ns`: time per step in kernels of one name, their template aside, from a trace, and the
operator and the node of the autograd graph that launched them. Products of matrices, convolutions
and fused attention are what a device is there for, and are left out, as is communication.

## Why it matters
Where the device holds the steps up and one kernel is most of what it does, nothing else that is
changed makes the steps much shorter. A kernel that takes so much is often one that cannot use the
device: it adds up one after the other, waits on atomics, or has too few threads.

## What to do
Look at the operator's inputs: their sizes, their layout, how often an index names the same row.
`GpuProfCallback(with_stack=True)` names the line that called it.

## Thresholds
`MOST_FRAC`: more than half of the kernels' time, and of the step, in steps most of which the device
holds up. Another rule that tells of it says more, and this one steps back. What the change is and
what it saves is not known: no time is claimed, and it is no more than `info`.
"""

from collections import Counter

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import held_by_device
from lightning_gpuprof.analysis.trace.kernel_category import MATRIX_CATEGORIES, kernel_family
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.findings.no_trace import KERNELS, no_trace
from lightning_gpuprof.units import duration, percent

ID = "dominant-kernel"
EFFORT = Effort(Horizon.MEDIUM, "find what calls it, and call another", "not known")
MOST_FRAC = 0.5
LEFT_OUT = (*MATRIX_CATEGORIES, "communication")
ALL_OF_IT = 0.9
"""An operator inside of which so much of the kernel's time passes has launched it."""
_ENGINE = "autograd::engine"


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where one kernel is most of what the device does."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.rows("kernels"):
        return no_trace(ID, KERNELS)
    family, total_ns = longest_kernel(facts)
    whole = sum(row.get("total_ns") or 0 for row in facts.rows("kernels"))
    kernel_ns = total_ns / facts.steps
    if total_ns <= MOST_FRAC * whole or kernel_ns <= MOST_FRAC * run.step_ns:
        return None
    if held_by_device(run) <= MOST_FRAC:
        return None
    launched = _launched_by(facts, kernel_ns)
    by = f", launched by {' in '.join(launched)}" if launched else ""
    return Finding(
        id=ID,
        severity=Severity.INFO,
        title=f"{family} takes {percent(total_ns / whole)} of the kernels' time, "
        f"{duration(kernel_ns)} of each step{by}",
        advice="Look at what calls it and at its inputs: their sizes and layout, how often an "
        "index names one row. GpuProfCallback(with_stack=True) names the line. Whatever else is "
        "made faster, a step takes no less than this.",
        evidence={
            "kernel_ns": round(kernel_ns),
            "kernel_frac": total_ns / whole,
            "step_ns": run.step_ns,
        },
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        where=(Where(kernel=family, name=launched[0] if launched else None),),
    )


def longest_kernel(facts: TraceFacts) -> tuple[str, int]:
    """Return the kernels of one name that take longest, but products, and their time in a trace."""
    taken: Counter[str] = Counter()
    for row in facts.rows("kernels"):
        if row.get("category") not in LEFT_OUT:
            taken[kernel_family(str(row["name"]))] += row.get("total_ns") or 0
    return max(taken.items(), key=lambda item: item[1], default=("", 0))


def _launched_by(facts: TraceFacts, kernel_ns: float) -> list[str]:
    """Return the operator, and the node around it, that launch so much and little else."""
    every = [op for op in facts.operators.values() if not op.name.startswith(_ENGINE)]
    holding = [op for op in every if (op.device_total_ns or 0) >= ALL_OF_IT * kernel_ns]
    kinds = (
        [op for op in holding if op.name.startswith("aten::")],
        [op for op in holding if "Backward" in op.name and not op.name.startswith("aten::")],
    )
    # The innermost of several around it has the least device time beside it.
    return [min(ops, key=lambda op: op.device_total_ns or 0).name for ops in kinds if ops]
