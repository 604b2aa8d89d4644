"""Trains some steps at one batch size and measures time and memory; runs in a child process."""

import time
from statistics import median

import torch

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.memory.device import CudaMemory, out_of_memory_error
from lightning_gpuprof.trials.messages import TunePoint, TuneRequest
from lightning_gpuprof.trials.step import (
    CPU,
    check_precision,
    in_precision,
    make_optimizer,
    to_precision,
    train_step,
)
from lightning_gpuprof.trials.user_model import Made, call, load


def measure(request: TuneRequest) -> TunePoint:
    """Train the requested steps on one batch that stays on the device.

    Unlike the callbacks this waits for the device after every step.

    Raises:
        ConfigError: The model, precision or device cannot be used.
    """
    check_precision(request.precision)
    device = _device(request.device)
    make = load(request.model)
    try:
        return _measured(call(make), request, device)
    except out_of_memory_error() as error:
        return TunePoint(
            batch_size=request.batch_size,
            device=device.type,
            out_of_memory=True,
            error=str(error).split(". ")[0],
        )


def _measured(made: Made, request: TuneRequest, device: torch.device) -> TunePoint:
    on_cuda = device.type == "cuda"
    made.model.train()
    to_precision(made.model, request.precision)
    made.model.to(device)
    optimizer = make_optimizer(made.model, request.optimizer, as_on_cuda=on_cuda)
    batch = in_precision(made.batch(request.batch_size), request.precision, device)
    taken = []
    for step in range(request.warmup + request.steps):
        if on_cuda and step == request.warmup:
            torch.cuda.reset_peak_memory_stats(device)  # the process is ours alone
        begin = time.perf_counter_ns()
        train_step(made, batch, optimizer, request.precision, device=device)
        if on_cuda:
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter_ns() - begin)
    step_ns = round(median(taken[request.warmup :]))
    reading = CudaMemory(device).read() if on_cuda else None
    if reading is None:
        return TunePoint(batch_size=request.batch_size, device=device.type, step_ns=step_ns)
    return TunePoint(
        batch_size=request.batch_size,
        device=torch.cuda.get_device_name(device),
        step_ns=step_ns,
        peak_allocated_bytes=reading.peak_allocated_bytes,
        peak_reserved_bytes=reading.peak_reserved_bytes,
        resting_bytes=reading.allocated_bytes,
        others_bytes=reading.others_bytes,
        total_bytes=reading.total_bytes,
    )


def _device(asked: str) -> torch.device:
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise ConfigError("--device cuda: torch sees no GPU here. Leave it out to use the CPU.")
    return torch.device("cuda", 0) if there and asked != "cpu" else CPU
