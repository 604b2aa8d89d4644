"""What the GPU does and who waits, in words: the first line, and what to do where no rule fires."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from lightning_gpuprof.analysis.run.gpu_busy import GpuBusy, gpu_busy
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.device_marks import MOSTLY_QUEUED_FRAC, StepState, gpu_line
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.units import duration, percent, size
from lightning_gpuprof.views.documents.finding_payload import plain

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


def line_of(busy: GpuBusy) -> str:
    """Return the sentence of the first line."""
    mostly = _mostly(busy.compute_frac, busy.copies_frac, busy.communication_frac)
    return gpu_line(busy.busy_frac, busy.state, mostly)


def _mostly(compute: float | None, copies: float | None, communication: float | None) -> str:
    """Say with what a device is busy, where that is more than its computing."""
    most, name = max((copies or 0.0, "copies"), (communication or 0.0, "communication"))
    return f", mostly with {name}" if most > (compute or 0.0) else ""


def limit_line(results: RunResults) -> str | None:
    """Say what is the limit and how busy it is; without a GPU, how the step is divided."""
    busy = gpu_busy(results)
    if busy is not None:
        return line_of(busy)
    if not results.step_ns:
        return None
    if results.on_gpu:
        return "GPU: how busy it is was not measured; device marks or a trace tell"
    worked = [found.frac for phase in BATCH_WORK if (found := results.per_step(phase)) is not None]
    wait = results.per_step(Phase.DATA_WAIT)
    waits = f", {percent(wait.frac)} waiting for data" if wait is not None else ""
    return f"No GPU: the host is the limit, {percent(sum(worked))} of a step at work{waits}"


def verdict(results: RunResults) -> tuple[str, str] | None:
    """Return what limits the steps and what to do, as a title and a sentence; None if not known."""
    device = results.device.time
    if device is None or not results.on_gpu:
        return None
    title, change = _VERDICTS[device.state]
    share = percent(device.state_frac[device.state]).replace(".0%", "%")
    why = f"It had work queued in {share} of steps. " * (device.state is StepState.DEVICE_BOUND)
    return title.format(share=share), why + change


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


def busy_payload(results: RunResults) -> dict[str, Any] | None:
    """Lay out how busy the GPU is, with its sentence and verdict; None where it is not known."""
    busy, said = gpu_busy(results), verdict(results)
    if busy is None:
        return None
    title, advice = said or (None, None)
    return {**plain(asdict(busy)), "line": line_of(busy), "title": title, "advice": advice}
