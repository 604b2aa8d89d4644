"""The child process of `tune`: trains some steps at one batch size, and prints time and memory."""

import json
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from statistics import median
from typing import Any

import torch

from lightning_gpuprof.adapters.pytree import tree_map
from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.memory.device import CudaMemory, out_of_memory_error
from lightning_gpuprof.trials.model import CPU, Made, call, check, load, make_optimizer, train_step
from lightning_gpuprof.trials.tune import TunePoint

WARMUP = 5
"""Steps before the measured ones."""


def measure(model: str, batch_size: int, *, steps: int, precision: str) -> TunePoint:
    """Train some steps on one batch that stays on the device, a GPU where there is one.

    Unlike the callbacks this waits for the device after every step.

    Raises:
        ConfigError: The model, precision or size cannot be used.
    """
    check(precision, [batch_size])
    device = torch.device("cuda", 0) if torch.cuda.is_available() else CPU
    try:
        times_ns = _times(call(load(model)), batch_size, WARMUP + steps, precision, device)
    except out_of_memory_error() as error:
        said = str(error).split(". ")[0]
        return TunePoint(batch_size, device.type, error=f"out of memory: {said}")
    step_ns = round(median(times_ns[WARMUP:]))
    reading = CudaMemory(device).read() if device.type == "cuda" else None
    if reading is None:
        return TunePoint(batch_size, device.type, step_ns)
    return TunePoint(
        batch_size,
        torch.cuda.get_device_name(device),
        step_ns,
        reading.peak_allocated_bytes,
        reading.peak_reserved_bytes,
        reading.total_bytes,
    )


def _times(made: Made, size: int, steps: int, precision: str, device: torch.device) -> list[int]:
    on_cuda = device.type == "cuda"
    made.model.train().to(device)
    optimizer = make_optimizer(made.model, as_on_cuda=on_cuda)

    def moved(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf

    batch = tree_map(moved, made.batch(size))
    times_ns = []
    for step in range(steps):
        if on_cuda and step == WARMUP:
            torch.cuda.reset_peak_memory_stats(device)  # the process is ours alone
        begin = time.perf_counter_ns()
        train_step(made, batch, optimizer, precision, device=device)
        if on_cuda:
            torch.cuda.synchronize(device)
        times_ns.append(time.perf_counter_ns() - begin)
    return times_ns


def main() -> None:
    """Answer the request of the command line on the last line of stdout."""
    try:
        with redirect_stdout(sys.stderr):  # prints of the model must not mix with the reply
            point = measure(**json.loads(sys.argv[1]))
    except GpuProfError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(asdict(point)))


if __name__ == "__main__":
    main()
