"""Trains some steps at one batch size and measures time and memory: run in a child process."""

import time
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_map

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size import plan_model
from lightning_gpuprof.probes.batch_size.plan_model import Made
from lightning_gpuprof.probes.batch_size.plan_optimizer import make_optimizer
from lightning_gpuprof.probes.batch_size.plan_step import loss_of, to_precision
from lightning_gpuprof.probes.batch_size.plan_types import PRECISIONS
from lightning_gpuprof.probes.batch_size.tune_types import TunePoint, TuneRequest
from lightning_gpuprof.probes.memory.memory import CudaMemory

_OUT_OF_MEMORY: type[RuntimeError] = (
    getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
)


def measure(request: TuneRequest) -> TunePoint:
    """Train the steps asked for on one batch that stays on the device.

    Unlike the callbacks this waits for the device after every step: it is what is measured.

    Raises:
        ConfigError: The model, precision or device cannot be used.
    """
    if request.precision not in PRECISIONS:
        raise ConfigError(
            f"precision={request.precision!r} is not known. Pass one of {PRECISIONS}."
        )
    device = _device(request.device)
    make = plan_model.load(request.model)
    try:
        return _measured(plan_model.call(make, values=True), request, device)
    except _OUT_OF_MEMORY as error:
        return TunePoint(
            batch_size=request.batch_size,
            device=device.type,
            out_of_memory=True,
            error=str(error).split(". ")[0],
        )


def _measured(made: Made, request: TuneRequest, device: torch.device) -> TunePoint:
    made.model.train()
    to_precision(made.model, request.precision)
    made.model.to(device)
    used = make_optimizer(made.model, request.optimizer, as_on_cuda=device.type == "cuda")
    batch = _on_device(made.batch(request.batch_size), device, request.precision)
    for _ in range(request.warmup):
        _step(made, batch, used, request, device)
    memory = CudaMemory(device) if device.type == "cuda" else None
    if memory is not None:
        memory.peaks()  # begins new ones
    taken = [_step(made, batch, used, request, device) for _ in range(request.steps)]
    reading = memory.read() if memory is not None else None
    point = TunePoint(
        batch_size=request.batch_size, device=device.type, step_ns=round(median(taken))
    )
    if reading is None:
        return point
    held = reading.total_bytes - reading.free_bytes
    return TunePoint(
        batch_size=request.batch_size,
        device=torch.cuda.get_device_name(device),
        step_ns=point.step_ns,
        peak_allocated_bytes=reading.peak_allocated_bytes,
        peak_reserved_bytes=reading.peak_reserved_bytes,
        resting_bytes=reading.allocated_bytes,
        others_bytes=max(0, held - reading.reserved_bytes),
        total_bytes=reading.total_bytes,
    )


def _step(
    made: Made,
    batch: Any,
    used: torch.optim.Optimizer,
    request: TuneRequest,
    device: torch.device,
) -> int:
    """Train one step in Lightning's order and return how long it took, the device included."""
    begin = time.perf_counter_ns()
    with _autocast(request.precision, device):
        loss = loss_of(made, batch)
    used.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    used.step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() - begin


def _autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    half = torch.float16 if precision == "16-mixed" and device.type == "cuda" else torch.bfloat16
    return torch.autocast(device.type, half, enabled=precision.endswith("-mixed"))


def _device(asked: str) -> torch.device:
    there = torch.cuda.is_available()
    if asked == "auto":
        return torch.device("cuda", 0) if there else torch.device("cpu")
    if asked == "cuda" and not there:
        raise ConfigError("--device cuda: torch sees no GPU here. Leave it out to use the CPU.")
    return torch.device("cuda", 0) if asked == "cuda" else torch.device("cpu")


def _on_device(batch: Any, device: torch.device, precision: str) -> Any:
    dtype = {"bf16-true": torch.bfloat16, "16-true": torch.float16}.get(precision)

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to(device, dtype if dtype and leaf.is_floating_point() else leaf.dtype)

    return tree_map(moved, batch)
