"""Handing the batch to the device takes a noticeable share of every step.

## Symptom
Lightning's `batch_to_device`, or a batch-transfer hook of the module, takes long.

## Why
A copy from pageable memory makes the host wait, and many small copies cost a launch each. On a CPU
nothing is copied: there it is a hook's work.

## Fix
```python
DataLoader(data, pin_memory=False)  # before
DataLoader(data, pin_memory=True)  # after
```

Pack small tensors into one; in hooks work on whole batches, or move the work into the dataset.

## How it is measured
`transfer_ns`: host time per step; from a trace, copies, bytes and whether their memory is pinned.
Pinned copies still take their bytes' time, at 6 to 64 GB/s.

## Limits
On a GPU only the time the device stood idle counts. Handing over takes 75 µs, however small.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from lightning_gpuprof.analysis.run.phase_split import Part
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.trace.idle import LATE_CAUSES
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

LEFT_FRAC = 0.1
"""May stay of a hook's work after it was moved."""
SMALL_COPIES = 8
"""A batch is a handful of tensors."""
SLOWEST, FASTEST = 6, 64
"""Bytes per ns (GB/s) of pinned copies: PCIe 3.0 with eight lanes to 5.0 with sixteen."""
SLOWEST_OF = {"7.0": 12, "8.0": 12, "9.0": 24, "10.0": 24, "10.3": 24}
"""The slowest of cards that come with sixteen lanes alone, by compute capability: V100 and A100 in
PCIe 3.0, H100 and B200 in 4.0, at three quarters of the bus's rate."""
STAYS_NS = 75_000
"""76 to 140 µs were measured beside an H100, however small and pinned the batch."""
HOOKS = (
    "In {names}, work on the whole batch in few operations, without a loop over its samples. Or "
    "move it into the dataset, so that it is done once per sample or in the workers."
)
PIN = "Pin the batch's memory, so that the copy runs while the host goes on."
PACK = "Pack the batch's many tensors into one before it is copied, and split it there."
LESS = "Send less: smaller types (uint8, bfloat16), and only the tensors the model reads."
EFFORT = Effort(
    Horizon.QUICK,
    "an argument of the DataLoader, or a hook's work moved",
    "pinned memory is finite",
)


@rule(id="slow-host-to-device-copy", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where the transfer costs time."""
    transfer, step_ns = run.per_step(Phase.HOST_TO_DEVICE), measured(run.step_ns)
    hooks = [part for part in run.parts_of(Phase.HOST_TO_DEVICE) if part.per_step is not None]
    if transfer is None or not transfer.mean_ns or not (run.on_gpu or hooks):
        return None
    cost_ns, copies = transfer.mean_ns, _copies(run)
    lost = exposed(run, Phase.HOST_TO_DEVICE, cost_ns)
    saving = Range(low=round(lost.low_ns * (1 - LEFT_FRAC)), high=lost.high_ns)
    if run.on_gpu and not hooks:
        saving = _of_copies(run, saving, cost_ns, copies)
    if not saving.high:
        return None
    advice, change = _advice(run, hooks, copies)
    return Finding(
        severity=grade(saving, step_ns),
        title=f"{_what(cost_ns, hooks)} takes {duration(cost_ns)} of each step "
        f"({percent(cost_ns / step_ns)})",
        advice=advice,
        evidence={
            "transfer_ns": cost_ns,
            "transfer_frac": cost_ns / step_ns,
            "step_ns": step_ns,
            **_evidence(copies, run),
        },
        saving_ns=saving,
        confidence=0.5 if lost.basis == "unknown" else 0.8,
        where=tuple(Where(phase=Phase.HOST_TO_DEVICE.value, name=hook.name) for hook in hooks)
        or (Where(phase=Phase.HOST_TO_DEVICE.value),),
        change=change,
    )


def _what(cost_ns: int, hooks: Sequence[Part]) -> str:
    """Return what most of it is: one hook's work, or the copy."""
    longest = hooks[0] if hooks else None
    if longest is None or longest.per_step is None or 2 * longest.per_step.mean_ns < cost_ns:
        return "Handing the batch to the device"
    return longest.name


def _copies(run: RunResults) -> list[Mapping[str, Any]]:
    """Return the rows of copies to the device in the trace."""
    facts = trace_facts(run)
    return [row for row in facts.rows("copies") if row.get("kind") == "HtoD"] if facts else []


def _of_copies(
    run: RunResults, saving: Range, cost_ns: int, rows: Sequence[Mapping[str, Any]]
) -> Range:
    """Return what other copies save of a batch's, by those in the trace."""
    facts = trace_facts(run)
    if facts is None or not rows:
        return Range(low=max(0, saving.low - STAYS_NS), high=max(0, saving.high - STAYS_NS))
    count, size, took_ns = (
        [(row.get(key) or 0) / facts.steps for row in rows]
        for key in ("count", "bytes", "total_ns")
    )
    is_pageable = [row.get("memory") == "pageable" for row in rows]
    pageable = sum(compress(size, is_pageable))
    if pageable and 2 * pageable >= sum(size):
        late_ns = min((facts.idle_ns(*LATE_CAUSES) or 0.0) * facts.host_scale, cost_ns)
        pinned_ns = sum(took_ns) - sum(compress(took_ns, is_pageable))
        high = saving.high - pageable / FASTEST - pinned_ns + late_ns
        device = run.start.device
        slowest = SLOWEST_OF.get(device.capability or "", SLOWEST) if device else SLOWEST
        low = max(0, round(saving.low - pageable / slowest - pinned_ns))
        return Range(low=low, high=max(low, round(min(high, run.step_ns or high))))
    if sum(count) > SMALL_COPIES:
        return Range(low=0, high=round(saving.high * (1 - 1 / sum(count))))
    return Range(low=0, high=round(min(saving.high, sum(took_ns))))


def _evidence(rows: Sequence[Mapping[str, Any]], run: RunResults) -> dict[str, int | float]:
    facts = trace_facts(run)
    if facts is None or not rows:
        return {}
    pageable = [row for row in rows if row.get("memory") == "pageable"]
    return {
        f"{name}_per_step_{unit}": round(sum(row.get(key) or 0 for row in of) / facts.steps)
        for name, unit, key, of in (
            ("copies", "count", "count", rows),
            ("copied", "bytes", "bytes", rows),
            ("pageable_copies", "count", "count", pageable),
            ("pageable", "bytes", "bytes", pageable),
        )
    }


def _advice(
    run: RunResults, hooks: Sequence[Part], rows: Sequence[Mapping[str, Any]]
) -> tuple[str, str | None]:
    if hooks:
        return HOOKS.format(names=" and ".join(hook.name for hook in hooks)), None
    known = _evidence(rows, run)
    pinned = run.start.loader.pin_memory if run.start.loader else None
    # A trace knows better than the loader's settings: batches may come pinned from elsewhere.
    mostly = 2 * known.get("pageable_per_step_bytes", 0) >= known.get("copied_per_step_bytes", 0)
    if run.on_gpu and mostly and known.get("pageable_copies_per_step_count", not pinned):
        return PIN, "DataLoader(..., pin_memory=True)"
    if known.get("copies_per_step_count", 0) > SMALL_COPIES:
        return PACK, None
    return LESS, None
