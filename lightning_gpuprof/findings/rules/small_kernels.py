"""The GPU runs many kernels that are shorter than their own launch.

## What it measures
From a trace: kernels per step, those below 10 µs (`thin`), and the device's idle time between
kernels that were launched too late or one by one (`launch_latency`, `kernel_gap`, `host_operator`,
`host_python`, `host_launch_call`).

## Why it matters
A kernel costs the host 2 to 10 µs to launch whatever it does. Where most kernels are shorter, the
device waits for the next one most of the time.

## What to do
Launch fewer: fuse (`torch.compile`), replay the step as one CUDA graph
(`mode="reduce-overhead"`), use fused optimizers and larger batches.

## Thresholds
`THIN_COUNT_FRAC`: most kernels. Idle time while the host was at an operator or in Python may have
another cause, so the low bound counts launch latency and gaps between kernels (`GAPS`) alone, and
nothing where the host holds most steps back (host-bound): there the latency of a launch passes
beside the host's next work.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.units import duration, percent

ID = "small-kernels"
EFFORT = Effort(
    Horizon.MEDIUM, "compile the model, or capture it as a graph", "shapes must stay the same"
)
THIN_COUNT_FRAC = 0.5
GAPS = ("launch_latency", "kernel_gap")
LATE = ("host_operator", "host_python", "host_launch_call")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where short kernels leave gaps."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.on_device:
        return Abstained(ID, "it takes an analysed trace with kernels of a GPU, and there is none")
    thin_frac = facts.number("thin_kernels", "count_frac")
    gaps, late = facts.idle_ns(*GAPS) or 0.0, facts.idle_ns(*LATE) or 0.0
    if thin_frac is None or thin_frac < THIN_COUNT_FRAC or not gaps + late:
        return None
    marks = run.device_time
    beside = marks is not None and marks.state is StepState.HOST_BOUND
    saving = Range(low=0 if beside else round(gaps), high=round(gaps + late))
    return _finding(run, facts, run.step_ns, thin_frac, saving)


def _finding(
    run: RunResults, facts: TraceFacts, step_ns: int, thin_frac: float, saving: Range
) -> Finding:
    thin = facts.per_step("thin_kernels", "count") or 0.0
    kernels = facts.number("launches", "kernels_per_step")
    saving = Range(low=min(saving.low, step_ns), high=min(saving.high, step_ns))
    evidence: dict[str, int | float] = {
        "thin_kernels_per_step_count": round(thin),
        "thin_kernels_frac": thin_frac,
        "gaps_ns": saving.high,
        "step_ns": step_ns,
    }
    if kernels is not None:
        evidence["kernels_per_step_count"] = round(kernels)
    shortest = [row for row in facts.rows("kernels") if (row.get("mean_ns") or 0) < 10_000]
    most = max(shortest, key=lambda row: row.get("count") or 0, default=None)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{percent(thin_frac)} of the kernels are below 10 µs, and the device idles "
        f"{duration(saving.high)} of each step between launches",
        advice="Launch less: capture the step as a CUDA graph or compile it, so that small kernels "
        "are fused or replayed together.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.7,
        where=(Where(kernel=str(most["name"])),) if most else (),
        change='model = torch.compile(model, mode="reduce-overhead")',
    )
