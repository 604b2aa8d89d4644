"""A trace is too large for trace viewers.

## Symptom
The trace of a profiler window is larger than viewers can open.

## Why
chrome://tracing and Perfetto take minutes for such a trace or run out of memory, and writing it
stops training.

## Fix
Record fewer steps. Stacks alone make a trace several times larger.

```python
GpuProfCallback(active=20, with_stack=True)  # before
GpuProfCallback(active=3, with_stack=False)  # after
```

## How it is measured
`trace_bytes` is the size of the window's trace before compression. The limit is 500 MB.

## Limits
No time is claimed, because only profiled steps get slower.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.units import size

MAX_BYTES = 500_000_000
EFFORT = Effort(Horizon.QUICK, "one setting of the schedule", "the trace says less")


@rule(id="trace-too-large", effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the largest trace, if viewers cannot open it."""
    scheduled = [trace for trace in run.traces if trace.cycle.capture is None]
    largest = max(scheduled, key=lambda trace: trace.cycle.trace_bytes or 0, default=None)
    num_bytes = largest.cycle.trace_bytes or 0 if largest else 0
    if largest is None or num_bytes < MAX_BYTES:
        return None
    cycle = largest.cycle
    steps = cycle.last_step - cycle.first_step + 1
    fewer = max(1, int(steps * MAX_BYTES / num_bytes))
    return Finding(
        severity=Severity.WARNING,
        title=f"The trace of cycle {cycle.cycle} is {size(num_bytes)} for {steps} steps",
        advice=f"Record {fewer} steps, without stacks, shapes or memory events.",
        evidence={"trace_bytes": num_bytes, "trace_steps_count": steps},
        confidence=1.0,
        change=f"GpuProfCallback(active={fewer}, with_stack=False, record_shapes=False)",
    )
