"""What the GPU does and who waits, in words: the first line, and what to do where no rule fires."""

from dataclasses import asdict
from typing import Any

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.gpu_busy import GpuBusy, gpu_busy
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.device_marks import gpu_line
from lightning_gpuprof.units import percent
from lightning_gpuprof.views.documents.finding_payload import plain

_VERDICTS = {
    StepState.DEVICE_BOUND: (
        "The GPU is the limit",
        "It had work queued in {share} of steps. Lower precision, larger fused operators "
        "(torch.compile) or a smaller model make it faster; nothing on the host does.",
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
    parts = {"copies": busy.copies_frac, "communication": busy.communication_frac}
    most = max(parts, key=lambda name: parts[name] or 0.0)
    mostly = (parts[most] or 0.0) > (busy.compute_frac or 0.0)
    return gpu_line(busy.busy_frac, busy.state, f", mostly with {most}" if mostly else "")


def verdict(results: RunResults) -> tuple[str, str] | None:
    """Return what limits the steps and what to do, as a title and a sentence; None if not known."""
    device = results.device_time
    if device is None or not results.on_gpu:
        return None
    title, text = _VERDICTS[device.state]
    share = percent(device.state_frac[device.state]).replace(".0%", "%")
    return title.format(share=share), text.format(share=share)


def busy_payload(results: RunResults) -> dict[str, Any] | None:
    """Lay out how busy the GPU is, with its sentence and verdict; None where it is not known."""
    busy, said = gpu_busy(results), verdict(results)
    if busy is None:
        return None
    title, advice = said or (None, None)
    return {**plain(asdict(busy)), "line": line_of(busy), "title": title, "advice": advice}
