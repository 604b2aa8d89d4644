"""A trace is too large to be looked at with ease.

## What it measures
`trace_bytes`: the size of a cycle's trace file before compression.

## Why it matters
Viewers take minutes to open such a file or fail, and writing it stops the training.

## What to do
Record fewer steps (`active`), and leave out what is not needed: stacks (`with_stack`) make a trace
several times larger, shapes and memory events some tens of percent.

## Thresholds
`MAX_BYTES`: 500 MB, from where on chrome://tracing and Perfetto's page run out of memory. No time
is claimed: only profiled steps are slower.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.units import size

ID = "trace-too-large"
EFFORT = Effort(Horizon.QUICK, "one setting of the schedule", "the trace says less")
MAX_BYTES = 500_000_000


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a fact where a trace is beyond what viewers open."""
    sized = [t for t in run.traces if t.cycle.trace_bytes is not None]
    if not sized:
        return Abstained(ID, "no trace was recorded")
    largest = max(sized, key=lambda trace: trace.cycle.trace_bytes or 0).cycle
    bytes_ = largest.trace_bytes or 0
    if bytes_ < MAX_BYTES:
        return None
    steps = largest.last_step - largest.first_step + 1
    fewer = max(1, int(steps * MAX_BYTES / bytes_))
    return Finding(
        id=ID,
        severity=Severity.WARNING,
        title=f"The trace of cycle {largest.cycle} is {size(bytes_)} for {steps} steps",
        advice=f"Record {fewer} steps, without stacks, shapes or memory events.",
        evidence={"trace_bytes": bytes_, "trace_steps_count": steps},
        saving_ns=Range(low=0, high=0),
        confidence=1.0,
        change=f"GpuProfCallback(active={fewer}, with_stack=False, record_shapes=False)",
    )
