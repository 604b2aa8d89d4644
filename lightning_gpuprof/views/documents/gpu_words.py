"""What the GPU does and who waits, in words: the first line, and what to do where no rule fires."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from lightning_gpuprof.records.device_marks import MOSTLY_QUEUED_FRAC, StepState, gpu_line
from lightning_gpuprof.units import duration, percent, size

RECORD = "Record whole steps with CPU and GPU activities, to see what the device waits for."
_VERDICTS = {
    StepState.DEVICE_BOUND: (
        "The GPU is the limit",
        "Lower precision, larger fused operators (torch.compile) or a smaller model make it "
        "faster; nothing on the host does.",
    ),
    StepState.SYNC_BOUND: (
        "The host waits for the device in {share} of steps",
        "Something reads values off the device; `lightning-gpuprof inspect SCRIPT` names the line.",
    ),
    StepState.HOST_BOUND: (
        "The GPU waits for the host in {share} of steps",
        "Less host work per step makes it faster: fewer and larger operators, torch.compile or "
        "CUDA graphs, a larger batch.",
    ),
    StepState.DATA_BOUND: (
        "The GPU waits for data in {share} of steps",
        "Batches that come sooner make it faster: more workers, or less work per sample.",
    ),
}


def _mostly(compute: float | None, copies: float | None, communication: float | None) -> str:
    """Say with what a device is busy, where that is more than its computing."""
    most, name = max((copies or 0.0, "copies"), (communication or 0.0, "communication"))
    return f", mostly with {name}" if most > (compute or 0.0) else ""


def kernel_facts(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield how an analysed trace's device spends its time beside the kernels by name."""
    gpu = document.get("gpu") or {}
    steps = len({mark.get("name") for mark in document.get("steps") or ()})
    count = sum(row["count"] for row in document.get("kernels") or ())
    yield f"{count / max(1, steps):,.0f} kernels{' a step' * bool(steps)}"
    if (frac := document.get("gemm_frac")) is not None:
        yield f"GEMM {percent(frac)}"
    if "occupancy_frac" in (filled := document.get("occupancy") or {}):
        yield f"occupancy {percent(filled['occupancy_frac'])}"
    span_ns = (gpu.get("span_ns") or 0) * max(1, steps) / max(1, gpu.get("steps") or steps)
    if not span_ns:
        return
    if (sync_ns := document.get("sync_ns")) is not None:
        yield f"sync {percent(min(1.0, sync_ns / span_ns))}"
    late = ("launch_latency", "kernel_gap")
    gaps = sum(row["total_ns"] for row in document.get("idle") or () if row["cause"] in late)
    yield f"launch gaps {percent(gaps / gpu['span_ns'])}"
    yield f"exposed copies {percent((gpu.get('exposed_copy_ns') or 0) / gpu['span_ns'])}"


def to_calls_line(document: Mapping[str, Any]) -> str | None:
    """Say how often `.to()` and `.cuda()` are called, and what they copy; None where never."""
    steps = len({mark.get("name") for mark in document.get("steps") or ()})
    of = {row["name"]: row.get("count", 0) for row in document.get("operators") or ()}
    if not (calls := of.get("aten::to")):
        return None
    a_step, num_bytes = max(1, steps), document.get("to_bytes")
    said = f"{calls / a_step:,.4g} calls of .to() and .cuda(){' a step' * bool(steps)}"
    copied = "" if num_bytes is None else f" {size(num_bytes / a_step)}"
    return f"{said}, {of.get('aten::_to_copy', 0) / a_step:,.4g} of them copy{copied}"


_LATE = {
    "host_data_wait": StepState.DATA_BOUND,
    "host_sync": StepState.SYNC_BOUND,
    "unknown": None,
    "dependency": None,
}
"""Who waits while a device is idle for these causes; for all others it waits for the host."""


def trace_verdict(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a trace alone says: the limit in one sentence and the change in another."""
    gpu, quality = document["gpu"], document["quality"]
    first = next(iter(document["findings"]), None)
    if gpu is None:
        if quality["launch_count"] or document["warnings"]:
            return "GPU: not known, for the trace holds no device events that can be read.", RECORD
        top = max(document["operators"], key=lambda row: row["self_ns"], default=None)
        named = f"Begin with {top['name']}, {duration(top['self_ns'])} of its own." if top else ""
        return "No GPU: the trace has host events alone.", named or RECORD
    if quality["doubts"]:
        return f"GPU: not known. {quality['doubts'][0]}", f"No finding rests on it. {RECORD}"
    idle = Counter[StepState | None]()
    for row in document["idle"]:
        idle[_LATE.get(row["cause"], StepState.HOST_BOUND)] += row["total_ns"]
    state = max(idle, key=lambda one: idle[one], default=None)
    busy = gpu["busy_frac"] or 0.0
    if busy >= MOSTLY_QUEUED_FRAC:
        state = StepState.DEVICE_BOUND
    mostly = _mostly(gpu["compute_ns"], gpu["exposed_copy_ns"], gpu["exposed_comm_ns"])
    change = first["advice"] if first else _VERDICTS[state][1] if state else RECORD
    return f"{gpu_line(busy, state, mostly)}.", change
