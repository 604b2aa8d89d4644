"""Handing the batch to the device takes a noticeable share of every step.

## What it measures
`transfer_ns`: mean time per steady step in Lightning's `batch_to_device`, on the host clock, with
the batch-transfer hooks of the module and the data module; from a trace, how many copies from the
host there are, how many bytes, and whether their memory is pinned.

## Why it matters
A copy from pageable memory makes the host wait, and many small copies cost a launch each. On a CPU
there is nothing to copy: what takes time there is a hook.

## What to do
Pin the memory (`pin_memory=True`) and copy with `non_blocking=True`; send one packed tensor instead
of many small ones. In batch-transfer hooks, work on whole batches; move what needs no device into
the dataset, once per sample.

## Thresholds
`LEFT_FRAC`: what may stay of a hook's work after it was moved, as for callbacks. `SMALL_COPIES`: a
batch is a handful of tensors. On a GPU only the time the device stood idle counts
(`savings/hidden.py`). A pinned copy takes its time too, and the device waits for it: where a trace
tells the bytes that came from pageable memory, they stay, and so does what pinned copies take. They
stay at the rate of the trace's own pinned copies, if they are large (`RATED_BYTES`); else in the
high bound at that of the device's PCIe generation with 16 lanes, or of NVLink-C2C, in the low one
at three quarters of the slowest slot that a card may be in (`SLOWEST_OF`): its own is not
recorded, and no copy reaches the whole rate; to the high bound belongs what the device idles
because the host, held up by the copy, launches late (`trace/idle.py`), for as long as it was held
up at most. Where most bytes come from pinned memory, what the calls take stays, but for those of
many small tensors: fewer bytes save what the device copies, at most; where the device holds the
steps up, that is what it copies while it computes nothing, however little the host has to do for
it. Where no trace tells the bytes, handing a batch over takes `STAYS_NS`, however small and pinned
it is: 76 to 140 µs were measured beside an H100, of a few KB and of 16 MiB. Severity: the common
scale (`findings/grade.py`).
"""

import re
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from lightning_gpuprof.analysis.run.phase_split import Part
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.trace.idle import LATE_CAUSES
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-host-to-device-copy"
EFFORT = Effort(
    Horizon.QUICK,
    "an argument of the DataLoader, or a hook's work moved",
    "pinned memory is finite",
)
LEFT_FRAC = 0.1
SMALL_COPIES = 8
SLOWEST = 6
"""Bytes per ns, which is GB/s: three quarters of PCIe 3.0 with eight lanes."""
SLOWEST_OF = {"7.0": 12, "8.0": 12, "9.0": 24, "10.0": 24, "10.3": 24}
"""By compute capabilities that only data centres have, which use 16 lanes: three quarters
of PCIe 3.0, and from Hopper on, whose servers came after it, of 4.0."""
FASTEST = {7: 16, 8: 32}
"""With 16 lanes, by major compute capability: Volta and Turing have PCIe 3.0, Ampere and Ada 4.0,
later ones 5.0."""
FASTEST_PCIE = 64
CHIP_TO_CHIP, CHIP_TO_CHIP_RATE = re.compile(r"\bG[HB]\d"), 450
"""GH200, GB200, GB300 and GB10 reach the memory of their CPU over NVLink-C2C instead."""
RATED_BYTES = 2**20
"""Takes 16 us at the fastest, a few times what the start of a copy takes."""
STAYS_NS = 75_000
PIN = "DataLoader(..., pin_memory=True)"


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where the transfer costs time."""
    transfer, step_ns = run.per_step(Phase.HOST_TO_DEVICE), run.step_ns
    if transfer is None or step_ns is None:
        return Abstained(ID, "no step's transfer was measured")
    cost_ns = transfer.mean_ns
    if not cost_ns:
        return None
    hooks = [part for part in run.parts_of(Phase.HOST_TO_DEVICE) if part.per_step is not None]
    if not run.on_gpu and not hooks:
        return None  # nothing is copied: it is the Trainer's own handing on
    lost = exposed(run, Phase.HOST_TO_DEVICE, cost_ns)
    saving = Range(low=round(lost.low_ns * (1 - LEFT_FRAC)), high=lost.high_ns)
    evidence: dict[str, int | float] = {
        "transfer_ns": cost_ns,
        "transfer_frac": cost_ns / step_ns,
        "step_ns": step_ns,
    }
    copies = _copies(run)
    evidence |= copies
    advice, change = _advice(run, [hook.name for hook in hooks], copies)
    if run.on_gpu and not hooks:
        known = _of_copies(run, saving, cost_ns) if copies else None
        saving = known or Range(
            low=max(0, saving.low - STAYS_NS), high=max(0, saving.high - STAYS_NS)
        )
    title = (
        f"{_what(cost_ns, hooks)} takes {duration(cost_ns)} of each step "
        f"({percent(cost_ns / step_ns)})"
    )
    copying_ns = 0 if hooks or change else _alone_ns(run)
    if copying_ns:
        saving = Range(low=0, high=copying_ns)
        evidence["copying_ns"] = copying_ns
        title = (
            f"Copying the batch takes the device {duration(copying_ns)} of each step "
            f"({percent(copying_ns / step_ns)}), in which it computes nothing"
        )
        advice += " Or copy the next batch on a stream of its own, while this one is computed."
    if not saving.high:
        return None
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=title,
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.5 if lost.basis == "unknown" else 0.8,
        where=tuple(Where(phase=Phase.HOST_TO_DEVICE.value, name=hook.name) for hook in hooks)
        or (Where(phase=Phase.HOST_TO_DEVICE.value),),
        change=change,
    )


def _what(cost_ns: int, hooks: Sequence[Part]) -> str:
    """Return what most of it is: one hook's work, or the copy."""
    longest = next((hook for hook in hooks if hook.per_step is not None), None)
    if longest is None or longest.per_step is None or 2 * longest.per_step.mean_ns < cost_ns:
        return "Handing the batch to the device"
    return f"{longest.name}, the module's own work on each batch,"


def _of_copies(run: RunResults, saving: Range, cost_ns: int) -> Range:
    """Return what other copies save of a batch's, by those in the trace."""
    facts = trace_facts(run)
    rows = [row for row in facts.rows("copies") if row.get("kind") == "HtoD"] if facts else []
    if facts is None or not rows:
        return saving
    count, size, took_ns = (
        [(row.get(key) or 0) / facts.steps for row in rows]
        for key in ("count", "bytes", "total_ns")
    )
    is_pageable = [row.get("memory") == "pageable" for row in rows]
    pageable = sum(compress(size, is_pageable))
    if pageable and 2 * pageable >= sum(size):
        late_ns = min((facts.idle_ns(*LATE_CAUSES) or 0.0) * facts.host_scale, cost_ns)
        pinned_ns = sum(took_ns) - sum(compress(took_ns, is_pageable))
        slow, fast = _pinned_rate(rows) or _bus(run)
        high = saving.high - pageable / fast - pinned_ns + late_ns
        low = max(0, round(saving.low - pageable / slow - pinned_ns))
        return Range(low=low, high=max(low, round(min(high, run.step_ns or high))))
    if sum(count) > SMALL_COPIES:
        return Range(low=0, high=round(saving.high * (1 - 1 / sum(count))))
    return Range(low=0, high=round(min(saving.high, sum(took_ns))))


def _alone_ns(run: RunResults) -> int:
    """Return what copies to a device that holds the steps up take it without computing beside."""
    facts = trace_facts(run)
    if facts is None or run.device_time is None or not run.device_time.is_behind:
        return 0
    copies = [row for row in facts.rows("copies") if row.get("kind") == "HtoD"]
    took_ns = sum(row.get("total_ns") or 0 for row in copies) / facts.steps
    return round(min(took_ns, facts.per_step("gpu", "exposed_copy_ns") or 0.0))


def _pinned_rate(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the bytes per ns of a trace's pinned copies, twice; None where they are small."""
    pinned = [row for row in rows if row.get("memory") == "pinned"]
    count, size, took_ns = (
        sum(row.get(key) or 0 for row in pinned) for key in ("count", "bytes", "total_ns")
    )
    # Of small copies much of the time is their start's.
    return (size / took_ns,) * 2 if took_ns and size >= RATED_BYTES * count else None


def _bus(run: RunResults) -> tuple[float, float]:
    """Return the least and the most bytes per ns that pinned copies reach on this device."""
    device = run.start.device
    capability = (device.capability if device is not None else None) or ""
    slow = SLOWEST_OF.get(capability, SLOWEST)
    if device is not None and CHIP_TO_CHIP.search(device.name or ""):
        return slow, CHIP_TO_CHIP_RATE
    major = capability.partition(".")[0]
    return slow, FASTEST.get(int(major) if major.isdecimal() else 0, FASTEST_PCIE)


def _copies(run: RunResults) -> dict[str, int | float]:
    facts = trace_facts(run)
    rows = [row for row in facts.rows("copies") if row.get("kind") == "HtoD"] if facts else []
    if facts is None or not rows:
        return {}
    pageable = [row for row in rows if row.get("memory") == "pageable"]
    return {
        "copies_per_step_count": round(sum(row.get("count") or 0 for row in rows) / facts.steps),
        "copied_per_step_bytes": round(sum(row.get("bytes") or 0 for row in rows) / facts.steps),
        "pageable_copies_per_step_count": round(
            sum(row.get("count") or 0 for row in pageable) / facts.steps
        ),
        "pageable_per_step_bytes": round(
            sum(row.get("bytes") or 0 for row in pageable) / facts.steps
        ),
    }


def _advice(
    run: RunResults, hooks: list[str], copies: dict[str, int | float]
) -> tuple[str, str | None]:
    if hooks:
        return (
            f"In {' and '.join(hooks)}, work on the whole batch in few operations, without a loop "
            "over its samples. Or move it into the dataset, so that it is done once per sample "
            "or in the workers, and keep the hook to moving tensors.",
            None,
        )
    pinned = run.start.loader.pin_memory if run.start.loader else None
    # A trace knows better than the loader's settings: batches may come pinned from elsewhere.
    mostly = 2 * copies.get("pageable_per_step_bytes", 0) >= copies.get("copied_per_step_bytes", 0)
    if run.on_gpu and mostly and copies.get("pageable_copies_per_step_count", not pinned):
        return "Pin the batch's memory, so that the copy runs while the host goes on.", PIN
    if copies.get("copies_per_step_count", 0) > SMALL_COPIES:
        return (
            "Pack the batch's many tensors into one before it is copied, and split it there.",
            None,
        )
    return "Send less: smaller types (uint8, bfloat16), and only the tensors the model reads.", None
