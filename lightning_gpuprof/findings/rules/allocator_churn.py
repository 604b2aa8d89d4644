"""Memory goes back to the driver, and is asked of it again, in every step.

## Symptom
Each step calls `cudaMalloc`, `cudaFree` or their like.

## Why
torch hands freed memory out again in a microsecond. What it gives back (`empty_cache()`) it has to
ask for again: a tenth of a millisecond a call, and `cudaFree` waits for the device.

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
Memory that is only asked for counts after the run's first steps, in which the cache fills.
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
    retries = (run.memory.alloc_retries or 0) if run.memory is not None else 0
    advice, change = _advice(empties is not None, frees >= 1, retries)
    return Finding(
        severity=grade(saving, step_ns),
        title=f"Each step {'frees and asks' if frees >= 1 else 'asks'} for device memory: "
        f"{duration(shown_ns)} ({percent(shown_ns / step_ns)})",
        advice=advice,
        evidence={
            "allocator_ns": shown_ns,
            "calls_per_step_count": round(count),
            "frees_per_step_count": round(frees),
            "alloc_retries_count": retries,
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


def _advice(known: bool, frees: bool, retries: int) -> tuple[str, str | None]:
    if known:
        return (
            "Leave torch.cuda.empty_cache() out of the loop: torch uses the memory again by "
            "itself, and frees what it can before it runs out.",
            "# torch.cuda.empty_cache()  # not in the loop",
        )
    if frees and retries:
        return "Memory runs out, and is freed to try again: use a smaller batch.", SEGMENTS
    if frees:
        return (
            "Something empties the cache in every step: look for torch.cuda.empty_cache() in the "
            "program and in what it calls. Without a call of it, PYTORCH_NO_CUDA_MEMORY_CACHING=1 "
            "does so, or Trainer(benchmark=True) where lengths keep changing.",
            None,
        )
    return (
        "Sizes differ from batch to batch, so freed memory does not fit: let segments grow, or pad "
        "batches to few sizes.",
        SEGMENTS,
    )
