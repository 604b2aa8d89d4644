"""Most of the device's memory is never used.

## Symptom
The memory peak is below 60% of the device.

## Why
A larger batch spreads the fixed cost of a step (launches, optimizer, Python) over more samples. It
is worth most where the host holds the device back.

## Fix
Raise the batch size towards the advised one, and the learning rate with it.

```python
DataLoader(data, batch_size=32)  # before
DataLoader(data, batch_size=128)  # after
```

## How it is measured
`peak_reserved_frac`: most that torch's allocator reserved since the process began, as a share of
the device's memory. The batch-size advisor aims at 60% and more.

## Limits
Nothing is said where memory grows or has run out. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import percent, size

TARGET_LOW_FRAC = 0.60
EFFORT = Effort(
    Horizon.QUICK, "one argument of the DataLoader", "a larger batch may need another learning rate"
)


@rule(id="unused-vram", needs=("device memory",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a fact where the peak stays below the target band."""
    memory = measured(run.memory)
    grows = run.memory_growth is not None and run.memory_growth.of_device
    if grows or memory.peak_frac >= TARGET_LOW_FRAC or memory.alloc_retries or memory.ooms:
        return None
    suggested = run.advice.suggested_batch_size if run.advice else None
    return Finding(
        severity=Severity.INFO,
        title=f"The memory peak is {size(memory.peak_reserved_bytes)}, "
        f"{percent(memory.peak_frac)} of the device",
        advice="Raise the batch size"
        + (f" to {suggested}" if suggested else "")
        + ", and the learning rate with it.",
        evidence=evidence_of(
            peak_reserved_bytes=memory.peak_reserved_bytes,
            total_bytes=memory.total_bytes,
            peak_reserved_frac=memory.peak_frac,
            suggested_batch_size_count=suggested,
        ),
        confidence=0.9,
        change=f"DataLoader(..., batch_size={suggested})" if suggested else None,
    )
