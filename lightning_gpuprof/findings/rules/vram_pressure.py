"""The device's memory is nearly full: the allocator frees and retries, or will soon fail.

## Symptom
The memory peak is above 90% of the device, the allocator retried, or an allocation failed.

## Why
A retry waits for the device, frees all cached blocks and allocates anew. The next longer sample may
end in an out-of-memory error.

## Fix
Lower the batch size and accumulate gradients, checkpoint activations, train in bfloat16, or let the
allocator grow its segments.

```python
h = self.block(h)  # before
h = torch.utils.checkpoint.checkpoint(self.block, h, use_reentrant=False)  # after
```

## How it is measured
`peak_reserved_frac` is the peak of torch's allocator since the process began. `others_bytes` is in
use beside it, and `alloc_retries_count` counts retries. A trace shows the device's idle time behind
calls of the allocator.

## Limits
Time is claimed only if a trace shows it.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import percent, size

HIGH_FRAC = 0.90
EFFORT = Effort(
    Horizon.QUICK, "an environment variable, or a smaller batch", "smaller batches cost"
)


@rule(id="vram-pressure", needs=("device memory",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about memory that is nearly full, or was."""
    memory, facts = measured(run.memory.use), trace_facts(run)
    retries, ooms = memory.alloc_retries or 0, memory.ooms or 0
    if memory.filled_frac < HIGH_FRAC and not retries and not ooms:
        return None
    stalled = round((facts.idle_ns("host_allocator") or 0.0) if facts else 0.0)
    title = f"Memory peaks at {size(memory.peak_reserved_bytes)}, "
    title += f"{percent(memory.peak_frac)} of the device"
    if retries:
        title += f"; the allocator retried {'once' if retries == 1 else f'{retries} times'}"
    training = " and accumulate gradients, checkpoint activations" if run.trains else ""
    beside = f"{size(memory.others_bytes)} are in use beside it. " if memory.others_bytes else ""
    return Finding(
        severity=Severity.CRITICAL if retries or ooms else Severity.WARNING,
        title=title,
        advice=f"{beside}Lower the batch size{_to_advised(run)}{training}, or let the allocator's "
        "segments grow.",
        evidence=evidence_of(
            peak_reserved_bytes=memory.peak_reserved_bytes,
            peak_allocated_bytes=memory.peak_allocated_bytes,
            total_bytes=memory.total_bytes,
            peak_reserved_frac=memory.peak_frac,
            others_bytes=memory.others_bytes,
            alloc_retries_count=memory.alloc_retries,
        ),
        saving_ns=Range(low=0, high=stalled),
        cause_ns=Range(stalled, stalled),
        confidence=0.9,
        change="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    )


def _to_advised(run: RunResults) -> str:
    """Return the suggested batch size in words, if it is smaller than the run's."""
    advised = run.memory.advice.suggested_batch_size if run.memory.advice else None
    if run.memory.advice is None or advised is None or advised >= run.memory.advice.batch_size:
        return ""
    return f" to {advised}"
