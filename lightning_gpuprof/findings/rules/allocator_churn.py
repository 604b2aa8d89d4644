"""Each step returns memory to the driver and requests it again.

## Symptom
Each step calls `cudaMalloc`, `cudaFree` or their like.

## Why
torch reuses freed memory in a microsecond. What it returns to the driver (`empty_cache()`) it must
request again, a tenth of a millisecond per call, and `cudaFree` waits for the device.

## Fix
```python
torch.cuda.empty_cache()  # before: in each step
...  # after: leave it out of the loop
```

Without such a call, let segments grow (`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`), or pad
batches to few sizes.

## How it is measured
`allocator_ns`: host time inside the driver's calls per step, from a trace; no more
than the device idles.

## Limits
Requests without frees do not count in the run's first steps, while the cache fills.
"""

import re

from lightning_gpuprof.analysis.run.host_lines import LineCount
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import is_early, trace_facts
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

MIN_CALLS = 2
"""Per step of the trace: one that frees, and one that asks again."""
EMPTIES = "empty_cache"
_DEVICE_MEMORY = re.compile(
    r"(cuda|hip|cu)(Malloc|Free|MemAlloc(_v2)?|MemFree(_v2)?|Mem(Create|Map|Unmap|Release|SetAccess))$"
)
_FREES = re.compile(r"Free|Unmap|Release")
SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"
EMPTIED = (
    "Remove torch.cuda.empty_cache() from the loop: torch reuses the memory by itself, and frees "
    "what it can before it runs out."
)
FREED = (
    "Something empties the cache in every step: look for torch.cuda.empty_cache(), "
    "PYTORCH_NO_CUDA_MEMORY_CACHING=1, or a batch that does not fit the memory."
)
GROWS = "Batch sizes differ, so freed memory does not fit: let segments grow, or pad to few sizes."
EFFORT = Effort(Horizon.QUICK, "a call left out, or an environment variable", "none")


@rule(id="allocator-churn", needs=("kernels",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where each step frees device memory, or asks for more."""
    facts, step_ns = measured(trace_facts(run)), measured(run.step_ns)
    every = facts.rows("launches", "calls")
    calls = [row for row in every if _DEVICE_MEMORY.match(str(row.get("name")))]
    count = sum(row["count"] for row in calls) / facts.steps
    frees = sum(row["count"] for row in calls if _FREES.search(row["name"])) / facts.steps
    if count < MIN_CALLS or (frees < 1 and is_early(run)):
        return None
    taken_ns = sum(row["total_ns"] for row in calls) / facts.steps
    high = min(facts.free_ns(step_ns), taken_ns)
    saving = Range(low=round(high * facts.host_scale), high=round(high))
    shown_ns, empties = round(facts.host_scale * taken_ns), _emptying(run)
    advice, change = (FREED, None) if frees >= 1 else (GROWS, SEGMENTS)
    if empties is not None:
        advice, change = EMPTIED, "# torch.cuda.empty_cache()  # not in the loop"
    return Finding(
        severity=grade(saving, step_ns),
        title=f"Each step {'frees and requests' if frees >= 1 else 'requests'} device memory: "
        f"{duration(shown_ns)} ({percent(shown_ns / step_ns)})",
        advice=advice,
        evidence={
            "allocator_ns": shown_ns,
            "calls_per_step_count": round(count),
            "frees_per_step_count": round(frees),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9 if empties is not None else 0.7,
        where=_places(run, empties),
        change=change,
        explains=("slow-callback", "host-bound") if empties is not None else (),
    )


def _emptying(run: RunResults) -> LineCount | None:
    """Return the line that empties the cache, by samples of the training thread."""
    lines = run.lines.lines if run.lines else ()
    found = [one for one in lines if EMPTIES in one.source or EMPTIES in (one.callee or "")]
    return max(found, key=lambda one: one.count, default=None)


def _places(run: RunResults, empties: LineCount | None) -> tuple[Where, ...]:
    if empties is None:
        return (Where(name="cudaMalloc"),)
    parts = {part.name for part in run.parts_of(Phase(empties.phase))}
    part = empties.function if empties.function in parts else None
    return Where.at(empties, phase=empties.phase), Where(phase=empties.phase, name=part)
