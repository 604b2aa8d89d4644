"""Moving the batch to the device takes a noticeable share of every step.

## Symptom
Lightning's `batch_to_device`, or a batch-transfer hook of the module, takes long.

## Why
A copy from pageable memory makes the host wait, and every small copy costs a launch. On a CPU
nothing is copied: there, the time is the work of a hook.

## Fix
```python
DataLoader(data, pin_memory=False)  # before
DataLoader(data, pin_memory=True)  # after
```

Pack small tensors into one. In hooks, work on whole batches, or move the work into the dataset.

## How it is measured
`transfer_ns` is the host time per step. A trace adds the copies, their bytes and whether their
memory is pinned. Copies from pinned memory still take the time of their bytes, at 6 to 64 GB/s.
From a trace alone, copies count while nothing else runs.

## Limits
On a GPU, only the time in which the device was idle counts. Moving a batch always takes about 75
µs, which stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.phase_split import Part
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.trace.idle import LATE_CAUSES
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent, size

LEFT_FRAC = 0.1
"""The share of a hook's work that may stay after it was moved."""
EXPOSED_FRAC = 0.05
"""From a trace alone, copies that nothing hides are reported from this share of the step."""
SMALL_COPIES = 8
"""With more copies per step, a batch is copied in many small tensors."""
SLOWEST, FASTEST = 6, 64
"""Bytes per ns (GB/s) of copies from pinned memory: PCIe 3.0 with 8 lanes to 5.0 with 16."""
SLOWEST_OF = {"7.0": 12, "8.0": 12, "9.0": 24, "10.0": 24, "10.3": 24}
"""The slowest rate of cards with 16 lanes, by compute capability: V100 and A100 in PCIe 3.0, H100
and B200 in PCIe 4.0, at three quarters of the bus's rate."""
STAYS_NS = 75_000
"""Moving a batch takes at least this long: 76 to 140 µs were measured with an H100, for a small
batch in pinned memory."""
HOOKS = (
    "In {names}, work on the whole batch in few operations instead of a loop over its samples, or "
    "move the work into the dataset and its workers."
)
PIN = "Pin the batch's memory, so that the copy runs while the host goes on."
PINNED, PIN_SETTING = "DataLoader(..., pin_memory=True)", "pin_memory=True"
PINNED_TENSOR = "x = x.pin_memory().to(device, non_blocking=True)"
PACK = "Pack the batch's many small tensors into one, copy that, and split it on the device."
LESS = "Send less: smaller types (uint8, bfloat16), and only the tensors the model reads."
EFFORT = Effort(Horizon.MEDIUM, "what a batch holds", "the model gets other inputs")
PIN_EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "pinned memory is finite")
HOOK_EFFORT = Effort(Horizon.MEDIUM, "a hook's work is moved", "none")


@dataclass(frozen=True)
class Copies:
    """Copies to the device per step: all of them, and those from pageable memory."""

    count: float
    size: float
    pageable_size: float
    took_ns: float
    pageable_ns: float
    late_ns: float
    """The device's idle time behind late launches."""

    @property
    def mostly_pageable(self) -> bool:
        """Whether half of the bytes or more come from pageable memory."""
        return self.pageable_size > 0 and 2 * self.pageable_size >= self.size


@rule(id="slow-host-to-device-copy", needs=("steps or kernels",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about moving batches to the device."""
    transfer, step_ns = run.per_step(Phase.HOST_TO_DEVICE), measured(run.step_ns)
    if not run.phases:
        return _of_trace(run, step_ns)
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
        title=f"{_what(cost_ns, hooks)} takes {duration(cost_ns)} of each step "
        f"({percent(cost_ns / step_ns)})",
        advice=advice,
        evidence=evidence_of(
            transfer_ns=cost_ns,
            copies_per_step_count=round(copies.count) if copies else None,
            copied_per_step_bytes=round(copies.size) if copies else None,
            pageable_per_step_bytes=round(copies.pageable_size) if copies else None,
        ),
        saving_ns=saving,
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.5 if lost.basis == "unknown" else 0.8,
        places=tuple(Place(phase=Phase.HOST_TO_DEVICE.value, name=hook.name) for hook in hooks)
        or (Place(phase=Phase.HOST_TO_DEVICE.value),),
        change=change,
        setting=PIN_SETTING if change == PINNED else None,
        effort=HOOK_EFFORT if hooks else PIN_EFFORT if change == PINNED else EFFORT,
    )


def _of_trace(run: RunResults, step_ns: int) -> Finding | None:
    """Return the finding of a trace alone, about copies while nothing else runs."""
    facts = measured(trace_facts(run))
    rows = [row for row in facts.analysis.copies if row.kind in ("HtoD", "DtoH")]
    exposed_ns = round(facts.device_step.exposed_copy_ns) if facts.device_step else 0
    if not rows or exposed_ns < EXPOSED_FRAC * step_ns:
        return None
    most = max(rows, key=lambda row: row.total_ns)
    count, num_bytes = most.count, most.bytes or 0
    rate = num_bytes / most.total_ns * 1e9 if most.total_ns else 0.0
    pageable = most.memory == "pageable"
    memory = f"{most.memory} " if most.memory else ""
    copies = f"{count:,} {'copy' if count == 1 else 'copies'} {most.kind}"
    largest = f"{copies}, {size(num_bytes)} of {memory}memory at {size(rate)}/s. "
    saving = Range(low=0, high=min(exposed_ns, step_ns))
    return Finding(
        title=f"Copies that nothing hides take {duration(exposed_ns)} of each step "
        f"({percent(exposed_ns / step_ns)})",
        advice=largest + (PIN if pageable else f"Keep on the device what does not change. {LESS}"),
        evidence={
            "exposed_copies_ns": exposed_ns,
            "copies_count": count,
            "copied_bytes": num_bytes,
            "copied_bytes_per_s": rate,
        },
        saving_ns=saving,
        cause_ns=saving,
        confidence=0.7,
        change=(PINNED if run.trains else PINNED_TENSOR) if pageable else None,
        setting=PIN_SETTING if pageable and run.trains else None,
        effort=PIN_EFFORT if pageable else EFFORT,
    )


def _what(cost_ns: int, hooks: Sequence[Part]) -> str:
    """Return what most of the time goes to: a hook's work, or moving the batch."""
    longest = hooks[0] if hooks else None
    if longest is None or longest.per_step is None or 2 * longest.per_step.mean_ns < cost_ns:
        return "Moving the batch to the device"
    return longest.name


def _copies(run: RunResults) -> Copies | None:
    """Return the copies to the device in the trace, None if it has none."""
    facts = trace_facts(run)
    rows = [row for row in facts.analysis.copies if row.kind == "HtoD"] if facts else []
    if facts is None or not rows:
        return None
    pageable = [row for row in rows if row.memory == "pageable"]
    return Copies(
        count=sum(row.count for row in rows) / facts.steps,
        size=sum(row.bytes or 0 for row in rows) / facts.steps,
        pageable_size=sum(row.bytes or 0 for row in pageable) / facts.steps,
        took_ns=sum(row.total_ns for row in rows) / facts.steps,
        pageable_ns=sum(row.total_ns for row in pageable) / facts.steps,
        late_ns=(facts.idle_ns(*LATE_CAUSES) or 0.0) * facts.host_scale,
    )


def _of_copies(run: RunResults, saving: Range, cost_ns: int, copies: Copies | None) -> Range:
    """Return what better copies save of the transfer, judging by those in the trace."""
    if copies is None:
        return Range(low=max(0, saving.low - STAYS_NS), high=max(0, saving.high - STAYS_NS))
    if copies.mostly_pageable:
        pinned_ns = copies.took_ns - copies.pageable_ns
        high = saving.high - copies.pageable_size / FASTEST - pinned_ns
        high += min(copies.late_ns, cost_ns)
        device = run.start.device
        slowest = SLOWEST_OF.get(device.capability or "", SLOWEST) if device else SLOWEST
        low = max(0, round(saving.low - copies.pageable_size / slowest - pinned_ns))
        return Range(low=low, high=max(low, round(min(high, run.step_ns or high))))
    if copies.count > SMALL_COPIES:
        return Range(low=0, high=round(saving.high * (1 - 1 / copies.count)))
    return Range(low=0, high=round(min(saving.high, copies.took_ns)))


def _advice(
    run: RunResults, hooks: Sequence[Part], copies: Copies | None
) -> tuple[str, str | None]:
    """Return the advice, and the change if it is a setting."""
    if hooks:
        return HOOKS.format(names=" and ".join(hook.name for hook in hooks)), None
    # A trace is better evidence than the loader's settings: batches may be pinned elsewhere.
    pinned = bool(run.start.loader and run.start.loader.pin_memory)
    if run.on_gpu and (not pinned if copies is None else copies.mostly_pageable):
        return PIN, PINNED
    return (PACK if copies is not None and copies.count > SMALL_COPIES else LESS), None
