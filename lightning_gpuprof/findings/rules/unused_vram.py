"""Most of the device's memory is never used.

## What it measures
`peak_reserved_frac`: the highest memory that torch's allocator reserved, as a share of the
device's memory, over the session.

## Why it matters
A larger batch spreads the fixed cost of a step (launches, the optimizer, Python) over more samples
and gives kernels more to do at once. It is worth most where the host holds the device back.

## What to do
Raise the batch size towards the advised one, and the learning rate with it; keep the effective
batch by lowering `accumulate_grad_batches` where it must not change.

## Thresholds
`TARGET_LOW_FRAC`: 60% of the device, the lower end of the advisor's target band of 60-80%. Where
the allocator ran out of memory all the same, vram-pressure says so, and nothing is said here. No
time is claimed as saved: what a larger batch gains per sample is not known before it was run.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.units import percent, size

ID = "unused-vram"
EFFORT = Effort(
    Horizon.QUICK, "one argument of the DataLoader", "a larger batch may need another learning rate"
)
TARGET_LOW_FRAC = 0.60


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a fact where the peak stays below the target band."""
    memory = run.memory
    if memory is None:
        return Abstained(ID, "device memory was not measured (no GPU)")
    if run.memory_growth is not None and run.memory_growth.of_device:
        return Abstained(ID, "device memory grows from step to step: a larger batch is no remedy")
    if memory.peak_frac >= TARGET_LOW_FRAC or memory.alloc_retries or memory.ooms:
        return None
    suggested = run.advice.suggested_batch_size if run.advice else None
    evidence: dict[str, int | float] = {
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        "total_bytes": memory.total_bytes,
        "peak_reserved_frac": memory.peak_frac,
    }
    if suggested is not None:
        evidence["suggested_batch_size_count"] = suggested
    return Finding(
        id=ID,
        severity=Severity.INFO,
        title=f"The memory peak is {size(memory.peak_reserved_bytes)}, "
        f"{percent(memory.peak_frac)} of the device",
        advice="Raise the batch size"
        + (f" to {suggested}" if suggested else "")
        + ", and the learning rate with it.",
        evidence=evidence,
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        change=f"DataLoader(..., batch_size={suggested})" if suggested else None,
    )
