"""The device's memory is nearly full: the allocator frees and retries, or will soon fail.

## What it measures
`peak_reserved_frac`: the highest memory that torch's allocator reserved, as a share of the
device's; `others_bytes`: what else was in use on it (the context, libraries, other processes),
which fills it too; `alloc_retries_count`: how often the allocator had to give all its cached blocks
back and ask again; from a trace, the time in which the device idled behind allocator calls.

## Why it matters
A retry synchronizes the device, frees every cached block and allocates anew: steps stall for
milliseconds. The next longer sample ends in an out-of-memory error.

## What to do
Lower the batch size to the advised one and accumulate gradients, checkpoint activations, train in
bfloat16, or let the allocator grow its segments (`expandable_segments`), which wastes less.

## Thresholds
`HIGH_FRAC`: 90%, above the advisor's target band of 60-80% by the spread that sequence lengths and
fragmentation take. Retries are told at any level. Time is claimed only where a trace shows it.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.units import percent, size

ID = "vram-pressure"
EFFORT = Effort(
    Horizon.QUICK, "an environment variable, or a smaller batch", "smaller batches cost"
)
HIGH_FRAC = 0.90


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where memory runs out."""
    memory = run.memory
    if memory is None:
        return Abstained(ID, "device memory was not measured (no GPU)")
    retries, ooms = memory.alloc_retries or 0, memory.ooms or 0
    if memory.filled_frac < HIGH_FRAC and not retries and not ooms:
        return None
    evidence: dict[str, int | float] = {
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        "peak_allocated_bytes": memory.peak_allocated_bytes,
        "total_bytes": memory.total_bytes,
        "peak_reserved_frac": memory.peak_frac,
    }
    if memory.others_bytes is not None:
        evidence["others_bytes"] = memory.others_bytes
    if memory.alloc_retries is not None:
        evidence["alloc_retries_count"] = retries
    facts = trace_facts(run)
    stalled = round((facts.idle_ns("host_allocator") or 0.0) if facts else 0.0)
    smaller = f"Lower the batch size{_to_advised(run)} and accumulate"
    return Finding(
        id=ID,
        severity=Severity.CRITICAL if retries or ooms else Severity.WARNING,
        title=f"The memory peak is {size(memory.peak_reserved_bytes)}, {percent(memory.peak_frac)} "
        f"of the device"
        f"{f', with {size(memory.others_bytes)} in use beside it' if memory.others_bytes else ''}"
        f"{f', and the allocator retried {_times(retries)}' if retries else ''}",
        advice=f"{smaller} gradients, checkpoint activations, or let segments grow.",
        evidence=evidence,
        saving_ns=Range(low=0, high=stalled),
        confidence=0.9,
        change="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    )


def _to_advised(run: RunResults) -> str:
    """Return the advised batch size, where that is smaller than the one of the run."""
    advised = run.advice.suggested_batch_size if run.advice else None
    if run.advice is None or advised is None or advised >= run.advice.batch_size:
        return ""
    return f" to {advised}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
