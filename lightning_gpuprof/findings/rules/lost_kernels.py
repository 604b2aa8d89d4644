"""A trace lacks kernels that were launched: its device times are too low.

## What it measures
`lost_kernels_count`: launching calls in a trace with nothing on any device to show for them. A
trace of a run on a GPU with nothing at all of its device lacks all of them, and mostly the
launching calls too: the driver's tracing library (CUPTI, roctracer) was not there, refused, or in
use by another.

## Why it matters
Busy time, kernel tables and every finding from them miss what those kernels ran.

## What to do
Record fewer steps at a time, close other profilers (Nsight, DCGM profiling) that hold the device's
counters, and give the profiler a warm-up step. Where everything is missing: `lightning-gpuprof
doctor` says what may be recorded; `KINETO_LOG_LEVEL=0` lets the tracing library say why.

## Thresholds
`WARN_FRAC`: at 1% of the launches, other figures begin to be off by as much; fewer are told as a
fact. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.findings.no_trace import no_trace
from lightning_gpuprof.units import percent

ID = "lost-kernels"
EFFORT = Effort(Horizon.QUICK, "another schedule", "none")
WARN_FRAC = 0.01


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a fact where a trace is incomplete."""
    facts = trace_facts(run)
    lost = facts.number("quality", "lost_kernels") if facts else None
    launched = facts.number("quality", "launch_count") if facts else None
    if facts is not None and run.on_gpu and not facts.on_device:
        return _nothing(launched or 0)
    if lost is None or launched is None:
        return no_trace(ID)
    if not lost or not launched:
        return None
    frac = lost / launched
    return Finding(
        id=ID,
        severity=Severity.WARNING if frac >= WARN_FRAC else Severity.INFO,
        title=f"{lost:,.0f} of {launched:,.0f} launches ({percent(frac)}) have no kernel in the "
        f"trace",
        advice="Record fewer steps at a time with a warm-up step, and close other profilers.",
        evidence={
            "lost_kernels_count": lost,
            "launches_count": launched,
            "lost_kernels_frac": frac,
        },
        saving_ns=Range(low=0, high=0),
        confidence=1.0,
        change="GpuProfCallback(warmup=1, active=3)",
    )


def _nothing(launched: float) -> Finding:
    return Finding(
        id=ID,
        severity=Severity.WARNING,
        title="The trace holds nothing that the GPU did: no kernel and no copy",
        advice="Close other profilers (Nsight, DCGM profiling), see `lightning-gpuprof doctor` for "
        "what this user may record, and set KINETO_LOG_LEVEL=0 to have the reason printed. All "
        "findings about kernels are left out until then.",
        evidence={"device_events_count": 0, "launches_count": launched},
        saving_ns=Range(low=0, high=0),
        confidence=1.0,
    )
