"""The variants that benchmarks/overhead.py compares, and one fit with each.

As a script: `python overhead_variants.py VARIANT STEP STEPS [--out FILE]` prints the figures, or
writes them to a file where something else captures what a script prints.
"""

import argparse
import importlib.util
import json
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StepKind:
    """A model and how its steps are timed: in blocks, of which the first few are left out."""

    width: int
    layers: int
    batch: int
    block: int
    skipped: int


KINDS = {
    "tiny": StepKind(width=32, layers=1, batch=4, block=50, skipped=600),
    "30 ms": StepKind(width=1_024, layers=3, batch=128, block=10, skipped=10),
}
"""About 0.45 and 30 ms on one thread of a processor. Of tiny steps the first third of a second is
left out, in which a timer finds out what it costs and marks fewer of them."""

BARE = "bare Trainer"
AGAIN = "bare Trainer once more"
EVERY_STEP = "overhead_budget=1"
NO_LINES = "lines=False"
"""As after the first twenty seconds, when the line sampler has ended."""
VARIANTS = (
    BARE,
    AGAIN,
    "empty callback",
    "PhaseTimer",
    f"PhaseTimer, {EVERY_STEP}",
    "GpuProfCallback outside its window",
    f"GpuProfCallback outside its window, {NO_LINES}",
    f"GpuProfCallback outside its window, {EVERY_STEP}",
    "DeferredLoss",
    "loss.item()",
    'self.log("loss", loss)',
    "SimpleProfiler",
    "AdvancedProfiler",
    "PyTorchProfiler outside its window",
    "PyTorchProfiler inside its window",
    "DeviceStatsMonitor",
    "ThroughputMonitor",
)
"""DeviceStatsMonitor, ThroughputMonitor and self.log log, as they are made to, to a CSVLogger."""

LEFT_OUT = {}
if importlib.util.find_spec("psutil") is None:
    LEFT_OUT["DeviceStatsMonitor"] = "refuses a CPU without psutil, which is not installed"


@dataclass(frozen=True)
class StepTime:
    """Nanoseconds per step of one fit.

    The median is over blocks of steps, so that it leaves out what happens once in many of them: a
    write of records, a full garbage collection, a neighbour's burst. The mean holds them all.
    """

    mean_ns: float
    median_ns: float


def step_time(variant: str, kind: str, steps: int, *, accelerator: str = "cpu") -> dict[str, float]:
    """Fit a model with a variant for some steps beside those skipped; returns a `StepTime`."""
    shape = KINDS[kind]
    times = fit(variant, kind, shape.skipped + steps + shape.block, accelerator=accelerator)
    times = times[shape.skipped // shape.block :]
    blocks = [(end - begin) / shape.block for begin, end in pairwise(times)]
    return asdict(StepTime(statistics.fmean(blocks), statistics.median(blocks)))


def fit(
    variant: str,
    kind: str,
    steps: int,
    *,
    accelerator: str = "cpu",
    at_block: Callable[[int], None] | None = None,
) -> list[int]:
    """Fit, and return the time at which each block of steps begins."""
    import gc

    import torch
    from lightning.pytorch import LightningModule, Trainer

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    shape = KINDS[kind]
    batch = torch.randn(shape.batch, shape.width)
    times: list[int] = []

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            width = shape.width
            self.layers = torch.nn.Sequential(
                *[torch.nn.Linear(width, width) for _ in range(shape.layers)]
            )
            self.count = 0

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if self.count % shape.block == 0:
                times.append(time.perf_counter_ns())
                if at_block is not None:
                    at_block(self.count)
            self.count += 1
            loss = self.layers(batch).sum()
            if variant == 'self.log("loss", loss)':
                self.log("loss", loss)
            elif variant == "loss.item()":
                loss.item()
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            while True:
                yield batch

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            **{
                "max_steps": steps,
                "accelerator": accelerator,
                "devices": 1,
                "logger": False,
                "enable_progress_bar": False,
                "enable_checkpointing": False,
                "enable_model_summary": False,
                "default_root_dir": folder,
                **_options(variant, steps, folder),
            }
        )
        gc.collect()  # what was imported or forked is gone through once, before the steps
        trainer.fit(Model(), torch.utils.data.DataLoader(Endless(), batch_size=None))
    return times


def _options(variant: str, steps: int, folder: str) -> dict[str, Any]:
    import torch
    from lightning.pytorch import Callback, profilers
    from lightning.pytorch import callbacks as theirs
    from lightning.pytorch.loggers import CSVLogger

    if variant.startswith(("PhaseTimer", "GpuProf", "DeferredLoss")):
        return _ours(variant, steps)
    inside = variant.startswith("PyTorchProfiler inside")
    # Its window comes at the end: one that never comes ends in an AssertionError of torch's.
    wait = 10 if inside else steps - 3
    schedule = torch.profiler.schedule(wait=wait, warmup=1, active=steps if inside else 1)
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "empty callback": lambda: {"callbacks": [Callback()]},
        "SimpleProfiler": lambda: {"profiler": profilers.SimpleProfiler(folder)},
        "AdvancedProfiler": lambda: {"profiler": profilers.AdvancedProfiler(folder)},
        "PyTorchProfiler": lambda: {
            "profiler": profilers.PyTorchProfiler(folder, schedule=schedule, export_to_chrome=False)
        },
        "DeviceStatsMonitor": lambda: {
            "callbacks": [theirs.DeviceStatsMonitor()],
            "logger": CSVLogger(folder),
        },
        "ThroughputMonitor": lambda: {
            "callbacks": [theirs.ThroughputMonitor(batch_size_fn=len)],
            "logger": CSVLogger(folder),
        },
        'self.log("loss", loss)': lambda: {"logger": CSVLogger(folder)},
    }
    name = variant.split(" outside")[0].split(" inside")[0]
    return made[name]() if name in made else {}


def _ours(variant: str, steps: int) -> dict[str, Any]:
    from lightning_gpuprof import DeferredLoss, GpuProfCallback, PhaseTimer

    if variant == "DeferredLoss":
        return {"callbacks": [DeferredLoss()]}
    budget = {"overhead_budget": 1.0} if variant.endswith(EVERY_STEP) else {}
    if variant.startswith("PhaseTimer"):
        return {"callbacks": [PhaseTimer(**budget)]}
    # As above, its window comes after the last step that is timed.
    options = {"wait": steps, "warmup": 1, "active": 1, "report": False, **budget}
    if variant.endswith(NO_LINES):
        options["lines"] = False
    return {"callbacks": [GpuProfCallback(**options)], "max_steps": steps + 2}


def main() -> None:
    """Fit once and give the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("steps", type=int)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    text = json.dumps(step_time(args.variant, args.kind, args.steps))
    if args.out is None:
        print(text)
    else:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
