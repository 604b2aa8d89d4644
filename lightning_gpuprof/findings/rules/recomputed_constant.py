"""The forward pass computes in every step what is the same in every step.

## What it measures
`constant_ns`: host time per step of torch functions, between a batch's start and its backward pass,
that were given neither the batch nor weights nor random numbers (`torch.arange`, masks, grids,
sines, a model's buffers), and whose results were the same in two of the run's first batches.

## Why it matters
Positions, masks, grids, windows and filters depend on sizes alone. Made anew they cost their
computing, and on a GPU a copy and several launches, in every step.

## What to do
Compute it once in `__init__` and keep it as a buffer (`register_buffer(..., persistent=False)`), or
keep it by size (`functools.lru_cache`).

## Thresholds
Results count as the same where sizes and sums are. Only what is made on the CPU is compared: on a
GPU that would make the host wait. `MIN_FRAC`: nearly every model makes a small range or a mask. A
fifth less goes with it at least, `MOST` times its own time at most (docs/adr/0031), and up to
`CALL_NS` for each call from Python.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import ConstantWork, FunctionNotes
from lightning_gpuprof.units import duration, percent

ID = "recomputed-constant"
EFFORT = Effort(Horizon.QUICK, "a buffer made once", "none where sizes stay the same")
MIN_FRAC = 0.01
CALL_NS = 5_000
MOST = 1.75


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each function that computes what does not change."""
    least_ns = MIN_FRAC * step_ns
    return tuple(_finding(run, step_ns, one) for one in seen.constants if one.taken_ns >= least_ns)


def _finding(run: RunResults, step_ns: int, one: ConstantWork) -> Finding:
    low, _ = around(one.taken_ns)
    high = round(MOST * one.taken_ns) + CALL_NS * one.calls
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.places[0].function} computes the same values in every step, from neither the "
        f"batch nor the weights: {duration(one.taken_ns)} ({percent(one.taken_ns / step_ns)})",
        advice="Compute it once, in __init__, and keep it as a buffer; if it depends on a size, "
        "keep one for each size.",
        evidence={
            "constant_ns": one.taken_ns,
            "calls_count": one.calls,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=in_forward(one.places),
        change='self.register_buffer("name", values, persistent=False)  # in __init__',
    )
