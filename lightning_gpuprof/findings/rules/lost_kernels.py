"""A trace lacks kernels that were launched: its device times are too low.

## Symptom
Launching calls in a trace have no kernel to show for them, or there are no kernels at all.

## Why
Busy time, kernel tables and every finding from them miss what those kernels ran.

## Fix
Record fewer steps after a warm-up step, and close other profilers that hold the device's counters
(Nsight, DCGM). Where everything is missing, `lightning-gpuprof doctor` says what may be recorded.

```python
GpuProfCallback(warmup=0, active=50)  # before
GpuProfCallback(warmup=1, active=3)  # after
```

## How it is measured
`lost_kernels_count` of `launches_count`, from the trace.

## Limits
Below 1% of the launches it is `info`. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.units import percent

WARN_FRAC = 0.01
EFFORT = Effort(Horizon.QUICK, "another schedule", "none")


@rule(id="lost-kernels", needs=("trace",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a fact where a trace is incomplete."""
    facts = measured(trace_facts(run))
    lost = facts.number("quality", "lost_kernels") or 0
    launched = facts.number("quality", "launch_count") or 0
    if run.on_gpu and not facts.on_device and not facts.doubted:
        return _nothing(launched)
    if not lost or not launched:
        return None
    frac = lost / launched
    return Finding(
        severity=Severity.WARNING if frac >= WARN_FRAC else Severity.INFO,
        title=f"{lost:,.0f} of {launched:,.0f} launches ({percent(frac)}) lack their kernel",
        advice="Record fewer steps at a time with a warm-up step, and close other profilers.",
        evidence={
            "lost_kernels_count": lost,
            "launches_count": launched,
            "lost_kernels_frac": frac,
        },
        confidence=1.0,
        change="GpuProfCallback(warmup=1, active=3)",
    )


def _nothing(launched: float) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        title="The trace holds nothing that the GPU did",
        advice="Close other profilers (Nsight, DCGM profiling), see `lightning-gpuprof doctor` for "
        "what this user may record, and set KINETO_LOG_LEVEL=0 to have the reason printed. All "
        "findings about kernels are left out until then.",
        evidence={"device_events_count": 0, "launches_count": launched},
        confidence=1.0,
    )
