"""Batch sizes that are predicted to fit, against those that do.

    python benchmarks/on_gpu/gpu_memory.py [--json FILE] [--cap MIB] [--models NAME ...] \
        [--seconds S]

torch's allocator is held to a cap, as on a smaller card. For each model: train at a small size with
`BatchSizeAdvisor`, then at what it suggests, until it is content; then 200 steps at that size,
which must cause no allocation retry and no OOM. Then find the largest size that trains by
bisection, which runs out of memory on purpose, and compare it with what the advisor and `plan` had
said. Without a GPU the same real Trainer trains tensors without data, whose memory is counted by a
copy of the allocator's rules, for 10 steps: `gpu_simulated.py`. That tells of the prediction, not
of a GPU. Under 1 GiB small models are trained. A model that fails is reported with its traceback,
and none begins once the time is up.
"""

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

import torch
from _figures import figure
from _harness import QUIET, write_results
from _part import attempted, keep, options
from gpu_simulated import OutOfMemory, Simulated
from lightning.pytorch import Callback, Trainer
from memory_models import MODELS, longest_of
from torch.utils.data import DataLoader

from lightning_gpuprof import plan
from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.memory.batch_size import MIN_SEGMENTS, SEGMENT_BYTES
from lightning_gpuprof.memory.device import CudaMemory, MemoryReading
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Advice

WINDOW, TRIAL_STEPS = 10, 3
LARGE_FROM_BYTES = 2**30
FIRST_SIZE = {"transformer": 8, "mlp": 1024, "varying": 8, "resnet": 16}
"""The first batch size of each; the slowest model is last, should the time run out."""
ROUNDS = 6
FREE_FRAC = 0.9
"""Of the memory that is free: libraries take some outside of torch's allocator."""
WITHIN_FRAC, PLAN_WITHIN_FRAC = 0.05, 0.10
FULL = ("unable to find an engine", "ALLOC_FAILED", "NOT_INITIALIZED")
"""Errors of cuDNN and cuBLAS without memory for a workspace or a handle."""


class Gpu:
    """The first GPU, with a cap on torch's allocator."""

    accelerator, steps, long_steps = "gpu", 25, 200

    def __init__(self, cap_bytes: int) -> None:
        self.cap_bytes = cap_bytes
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(cap_bytes / whole, 0)
        major, minor = torch.cuda.get_device_capability(0)
        self.compute_capability = None if torch.version.hip else major + minor / 10

    def probe(self, device: torch.device) -> Any:
        return Capped(device, self.cap_bytes)

    @contextmanager
    def training(self) -> Iterator[None]:
        # Here, not behind: what an error holds on to is free only once it was handled.
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_accumulated_memory_stats(0)  # OOMs and retries count from here
        torch.cuda.reset_peak_memory_stats(0)
        yield


Device = Gpu | Simulated


class Capped(CudaMemory):
    """Says that the device is as large as the cap."""

    def __init__(self, device: torch.device, cap_bytes: int) -> None:
        super().__init__(device)
        self.cap_bytes = cap_bytes

    def read(self) -> MemoryReading | None:
        reading = super().read()
        if reading is None:
            return None
        free = max(0, self.cap_bytes - reading.reserved_bytes)
        return replace(reading, total_bytes=self.cap_bytes, free_bytes=free)


class Stats(Callback):
    """Reads the allocator's own counts at the end of a fit, while its memory is held."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.reading: MemoryReading | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.probe = self.device.probe(trainer.strategy.root_device)
        self.probe.read()

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.reading = self.probe.read()


def train(
    device: Device, name: str, size: int, steps: int, *callbacks: Callback, longest: bool = False
) -> None:
    """Fit a new model for some steps at a batch size."""
    large = device.cap_bytes >= LARGE_FROM_BYTES
    batches: Any = MODELS[name](large=large)[1]
    make = batches.longest if longest else batches
    # A few batches, over and over: making them is no part of this.
    made = [make(size) for _ in range(min(steps, 8 if name == "varying" else 1))]
    with tempfile.TemporaryDirectory() as folder, device.training():
        model, _ = MODELS[name](large=large)
        loader = DataLoader([made[i % len(made)] for i in range(steps)], batch_size=None)
        trainer = Trainer(
            max_epochs=1,
            accelerator=device.accelerator,
            devices=1,
            **QUIET,
            default_root_dir=folder,
            callbacks=list(callbacks),
        )
        trainer.fit(model, loader)


def fits(device: Device, name: str, size: int) -> bool:
    """Tell whether a size trains, at the longest samples, without running out of memory."""
    try:
        train(device, name, size, TRIAL_STEPS, longest=True)
    except RuntimeError as error:
        if not isinstance(error, OutOfMemory) and not any(said in str(error) for said in FULL):
            raise
        return False
    return True


def advised(device: Device, name: str, size: int) -> Advice | None:
    """Train at a size with the advisor; returns its last word."""
    with tempfile.TemporaryDirectory() as folder:
        advisor = BatchSizeAdvisor(window=WINDOW, console=False, probe=device.probe)
        train(device, name, size, device.steps, Root(folder), advisor)
        session = read_run(folder)[0].sessions[0]
    advice = session.all(Advice)
    return advice[-1] if advice else None


class Root(Callback):
    """Has the run's records written into a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        from lightning_gpuprof.runtime.context import RunContext

        RunContext.of(trainer, log_dir=self.folder)


def bisect(device: Device, name: str, low: int, high: int) -> int:
    """Return the largest size that fits, to a hundredth, from one that does."""
    while fits(device, name, high):
        low, high = high, 2 * high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(device, name, middle) else (low, middle)
    return low


def examine(device: Device, name: str) -> dict[str, Any]:
    """Go from a small size to the suggested one, then look for the true limit."""
    size, tried = FIRST_SIZE[name], []
    for _ in range(ROUNDS):
        tried.append(size)
        advice = advised(device, name, size)
        if advice is None or advice.suggested_batch_size is None:
            why = None if advice is None else advice.reason
            return {"passed": False, "tried": tried, "withheld": why or "nothing was measured"}
        if advice.suggested_batch_size == size:
            break
        size = advice.suggested_batch_size
    else:
        return {"passed": False, "tried": tried, "withheld": "the suggestion never held"}
    kept, longest = Stats(device), Stats(device)
    train(device, name, size, device.long_steps, kept)
    train(device, name, size, TRIAL_STEPS, longest, longest=True)
    assert kept.reading is not None
    assert longest.reading is not None
    predicted = advice.details.get("largest_batch_size")
    planned = plan(
        lambda: longest_of(name, large=device.cap_bytes >= LARGE_FROM_BYTES),
        vram_bytes=device.cap_bytes,
        batch_sizes=(size // 2, size),
        compute_capability=device.compute_capability,
    )
    point = next(one for one in planned.points if one.batch_size == size)
    plan_off = point.peak_allocated_bytes / longest.reading.peak_allocated_bytes - 1
    failures, ahead = kept.reading.ooms + kept.reading.alloc_retries, f"memory: {name},"
    kept_limits = [  # already now: to find the true limit takes longest
        figure(f"{ahead} OOMs and retries in {device.long_steps} steps", failures, most=0),
        figure(f"{ahead} planned peak off the measured", round(abs(plan_off), 3),
               most=PLAN_WITHIN_FRAC),
    ]  # fmt: skip
    # Up to here nothing ran out of memory; from here on it is the purpose.
    true = bisect(device, name, size, max(size + 1, round((predicted or size) * 1.1)))
    row = {
        "tried": tried,
        "suggested": size,
        "steps": device.long_steps,
        "retries": kept.reading.alloc_retries,
        "ooms": kept.reading.ooms,
        "reserved_frac": round(kept.reading.peak_reserved_bytes / device.cap_bytes, 3),
        "largest_predicted": predicted,
        "largest_planned": planned.cards[0].largest_batch_size,
        "largest_true": true,
        "predicted_off_frac": None if predicted is None else round(predicted / true - 1, 3),
        "planned_off_frac": round(planned.cards[0].largest_batch_size / true - 1, 3),
        "plan_peak_off_frac": round(plan_off, 3),
    }
    off = row["predicted_off_frac"]
    if device.cap_bytes >= MIN_SEGMENTS * SEGMENT_BYTES:
        miss = None if off is None else abs(off)
        kept_limits.append(
            figure(f"{ahead} largest batch off the true one", miss, most=WITHIN_FRAC)
        )
    row["passed"] = all(kept_limits)
    return row


def examined(device: Callable[[], Device], name: str) -> dict[str, Any]:
    """Examine a model on a new device; where that fails, say so with the traceback."""
    row = attempted(lambda: examine(device(), name))
    return {"passed": False, "withheld": "it failed", **row} if "failure" in row else row


def main() -> int:
    parser = options(__doc__, seconds=600.0)
    parser.add_argument("--cap", type=int, metavar="MIB", default=8192)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(FIRST_SIZE))
    chosen = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    cap = chosen.cap * 2**20
    if on_gpu:
        # Memory that is taken already would be found as the true limit.
        cap = min(cap, int(FREE_FRAC * torch.cuda.mem_get_info(0)[0]) // 2**20 * 2**20)
        # Only memory is measured, and sizes near the limit are slow.
        torch.set_float32_matmul_precision("high")
    found: dict[str, Any] = {"cap_bytes": cap, "simulated": not on_gpu, "models": {}}
    until = time.monotonic() + chosen.seconds
    for name in chosen.models:
        begun = time.monotonic()
        if begun > until:
            row = {"passed": False, "withheld": "no time was left"}
        else:
            torch.manual_seed(0)  # its lengths are the same whichever models come before it
            row = examined(partial(Gpu if on_gpu else Simulated, cap), name)
        found["models"][name] = row | {"took_s": round(time.monotonic() - begun, 1)}
        print(f"{name:12} {json.dumps(row)}", flush=True)
        keep(found, chosen.json)
    if not on_gpu and chosen.json is None:
        print(write_results(f"memory-simulated-{chosen.cap}-mib", found))
    return sum(not row["passed"] for row in found["models"].values())


if __name__ == "__main__":
    sys.exit(main())
