"""Memory goes back to the driver, and is asked of it again, in every step.

## What it measures
`allocator_ns`: host time per step inside the driver's calls for device memory (`cudaMalloc`,
`cudaFree`, `hipMalloc`, what maps and unmaps segments), from a trace, and how many there are.

## Why it matters
torch keeps the memory that tensors leave, and hands it out again in a microsecond. What it gives
back (`torch.cuda.empty_cache()`) it has to ask for again: a call takes the host a tenth of a
millisecond (an H100), `cudaFree` waits until the device has done all its work, and the launches
that follow make the new memory known to the device.

## What to do
Leave `torch.cuda.empty_cache()` out of the loop: other tensors of the program can use the memory
without it, and so little is gained where it had run out. Where there is no such call and memory is
only asked for, sizes differ from batch to batch:
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` lets segments grow instead, and batches padded to
few sizes use the same memory again.

## Thresholds
`MIN_CALLS` per step of the trace: one that frees, and one that asks again. Memory that is only
asked for counts after the run's first steps, in which the cache fills. Calls of the driver's own
pool (`cudaMallocAsync`) and of the host's memory are left out. By the profiler each call may have
taken longer, as steps did, or not at all: the bounds. To the most belongs what launches take above
the usual one, too. What a replay of the trace without these calls would not save is in none
(`analysis/critical_path/replay.py`). Severity: the common scale (`findings/grade.py`).
"""

import re
from statistics import mean

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import (
    TraceFacts,
    is_early,
    steady_as_traced_ns,
    trace_facts,
)
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import KERNELS, no_trace
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "allocator-churn"
EFFORT = Effort(Horizon.QUICK, "a call left out, or an environment variable", "none")
MIN_CALLS = 2
REPLAYED = "host/allocator"
EMPTIES = "empty_cache"
_DEVICE_MEMORY = re.compile(
    r"(cuda|hip|cu)(Malloc|Free|MemAlloc(_v2)?|MemFree(_v2)?|Mem(Create|Map|Unmap|Release|SetAccess))$"
)
_FREES = re.compile(r"Free|Unmap|Release")
EXPLAINS = ("slow-callback", "host-bound")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where each step frees device memory, or asks for more."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.on_device:
        return no_trace(ID, KERNELS)
    every = facts.rows("launches", "calls")
    calls = [row for row in every if _DEVICE_MEMORY.match(str(row.get("name")))]
    count = sum(row["count"] for row in calls) / facts.steps
    frees = sum(row["count"] for row in calls if _FREES.search(row["name"])) / facts.steps
    if count < MIN_CALLS or (frees < 1 and is_early(run)):
        return None
    taken_ns = sum(row["total_ns"] for row in calls) / facts.steps
    exposed_ns = taken_ns * facts.exposed_frac(REPLAYED)
    low = exposed_ns * min(facts.host_scale, _slowed(run, facts))
    high = min(run.step_ns, exposed_ns + _slow_launches_ns(facts))
    saving = Range(low=round(min(low, high)), high=round(high))
    shown_ns, empties = round(facts.host_scale * taken_ns), _emptying(run)
    retries = (run.memory.alloc_retries or 0) if run.memory is not None else 0
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"Each step {'frees device memory and asks' if frees >= 1 else 'asks'} the driver "
        f"for {'it again' if frees >= 1 else 'more device memory'}: {count:.0f} calls, "
        f"{duration(shown_ns)} ({percent(shown_ns / run.step_ns)})",
        advice=_advice(empties is not None, frees >= 1, retries),
        evidence={
            "allocator_ns": shown_ns,
            "calls_per_step_count": round(count),
            "frees_per_step_count": round(frees),
            "alloc_retries_count": retries,
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.9 if empties is not None else 0.7,
        where=_places(run, empties),
        change=_change(empties, frees >= 1),
        explains=EXPLAINS if empties is not None else (),
    )


def _slowed(run: RunResults, facts: TraceFacts) -> float:
    """Return the steady step over the mean traced one, with those that stood still."""
    traced = [mark["dur_ns"] for mark in facts.rows("steps") if mark.get("dur_ns")]
    steady = steady_as_traced_ns(run)
    return min(1.0, steady / mean(traced)) if traced and steady else 1.0


def _slow_launches_ns(facts: TraceFacts) -> float:
    """Return what the launches of a step take more than as many of the median one."""
    usual, each = (facts.number("launches", "overhead", one) for one in ("median_ns", "mean_ns"))
    if usual is None or each is None:
        return 0.0
    return max(0.0, each - usual) * (facts.number("launches", "launches_per_step") or 0.0)


def _emptying(run: RunResults) -> LineCount | None:
    """Return the line that empties the cache, by samples of the training thread."""
    seen = host_lines(run.notes)
    found = [
        one
        for one in (seen.lines if seen is not None else ())
        if EMPTIES in one.source or EMPTIES in (one.callee or "")
    ]
    return max(found, key=lambda one: one.count, default=None)


def _places(run: RunResults, empties: LineCount | None) -> tuple[Where, ...]:
    if empties is None:
        return (Where(name="cudaMalloc"),)
    parts = {part.name for part in run.parts_of(Phase(empties.phase))}
    part = empties.function if empties.function in parts else None
    return Where.at(empties, phase=empties.phase), Where(phase=empties.phase, name=part)


def _advice(known: bool, frees: bool, retries: int) -> str:
    if known:
        return (
            "Leave torch.cuda.empty_cache() out of the loop: torch uses the memory again by "
            "itself, and frees what it can before it runs out."
        )
    if frees and retries:
        return (
            "Memory runs out, and is freed to try again: let segments grow, or use a smaller batch."
        )
    if frees:
        return (
            "Something empties the cache in every step: look for torch.cuda.empty_cache() in the "
            "program and in what it calls, and leave it out of the loop. Without a call of it, "
            "PYTORCH_NO_CUDA_MEMORY_CACHING=1 does so, or Trainer(benchmark=True) where lengths "
            "keep changing."
        )
    return (
        "Sizes differ from batch to batch, so freed memory does not fit: let segments grow, or pad "
        "batches to few sizes."
    )


def _change(empties: LineCount | None, frees: bool) -> str | None:
    if empties is not None:
        return "# torch.cuda.empty_cache()  # not in the loop"
    if frees:
        return None
    return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"
