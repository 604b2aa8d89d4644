"""The variants that benchmarks/overhead.py compares, and one fit with each.

As a script: `python overhead_variants.py VARIANT STEP STEPS` prints the nanoseconds per step.
"""

import importlib.util
import json
import logging
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

BLOCK = 50
SKIPPED = 100
MATRIX = {"tiny": (32, 1), "30 ms": (1_024, 9)}
"""By step: the layer's width and how many there are; about 0.45 and 30 ms on one thread."""

VARIANTS = (
    "bare Trainer",
    "empty callback",
    "PhaseTimer",
    "GpuProfCallback outside its window",
    "SimpleProfiler",
    "AdvancedProfiler",
    "PyTorchProfiler outside its window",
    "PyTorchProfiler inside its window",
    "DeviceStatsMonitor",
    "ThroughputMonitor",
    'self.log("loss", loss)',
    "loss.item()",
)
"""DeviceStatsMonitor and ThroughputMonitor log, as they are made to, to a CSVLogger."""

LEFT_OUT = {}
if importlib.util.find_spec("psutil") is None:
    LEFT_OUT["DeviceStatsMonitor"] = "refuses a CPU without psutil, which is not installed"


def step_ns(variant: str, step: str, steps: int) -> float:
    """Fit a model with a variant and return the median time per step of blocks of 50 steps."""
    times = fit(variant, step, steps)
    blocks = [(end - begin) / BLOCK for begin, end in pairwise(times[SKIPPED // BLOCK :])]
    return statistics.median(blocks)


def fit(
    variant: str, step: str, steps: int, *, at_block: Callable[[int], None] | None = None
) -> list[int]:
    """Fit, and return the time of each fiftieth step's begin."""
    import torch
    from lightning.pytorch import LightningModule, Trainer

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    width, layers = MATRIX[step]
    batch = torch.randn(4 if step == "tiny" else 128, width)
    times: list[int] = []

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                *[torch.nn.Linear(width, width) for _ in range(layers)]
            )
            self.count = 0

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if self.count % BLOCK == 0:
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
                "accelerator": "cpu",
                "logger": False,
                "enable_progress_bar": False,
                "enable_checkpointing": False,
                "enable_model_summary": False,
                "default_root_dir": folder,
                **_options(variant, steps, folder),
            }
        )
        trainer.fit(Model(), torch.utils.data.DataLoader(Endless(), batch_size=None))
    return times


def _options(variant: str, steps: int, folder: str) -> dict[str, Any]:
    import torch
    from lightning.pytorch import Callback, profilers
    from lightning.pytorch import callbacks as theirs
    from lightning.pytorch.loggers import CSVLogger

    if variant in ("PhaseTimer", "GpuProfCallback outside its window"):
        from lightning_gpuprof import GpuProfCallback, PhaseTimer

        if variant == "PhaseTimer":
            return {"callbacks": [PhaseTimer()]}
        never = {"wait": steps, "warmup": 1, "active": 1}
        return {"callbacks": [GpuProfCallback(**never, report=False)], "max_steps": steps + 2}
    if variant == "TraceML":
        import traceml_ai
        from traceml_ai.integrations.lightning import TraceMLCallback

        traceml_ai.init()
        return {"callbacks": [TraceMLCallback()]}
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
    }
    name = variant.split(" outside")[0].split(" inside")[0]
    return made[name]() if name in made else {}


def dispatch_ns(rounds: int = 20_000) -> dict[str, float]:
    """Measure entering and leaving an action's region alone: Lightning's and the tap's."""
    from lightning.pytorch.profilers import PassThroughProfiler

    from lightning_gpuprof.probes.phase_clock import PhaseClock
    from lightning_gpuprof.records.phases import Phase

    clock = PhaseClock(time.perf_counter_ns)
    clock.start()
    regions = {"action": clock.region(Phase.FORWARD)}
    figures = {}
    for name, profile in (
        ("lightning_region", PassThroughProfiler().profile),
        ("tap_region", regions.__getitem__),
    ):
        best = []
        for _ in range(20):
            begin = time.perf_counter_ns()
            for _ in range(rounds // 20):
                with profile("action"):
                    pass
            best.append((time.perf_counter_ns() - begin) / (rounds // 20))
            clock.settle()
        figures[name] = statistics.median(best)
    return figures


def memory_growth(steps: int) -> dict[str, float]:
    """Return what Python allocated and the process held at a tenth and at the end of a long fit."""
    seen: list[tuple[int, int, int]] = []

    def look(step: int) -> None:
        if step in (steps // 10 // BLOCK * BLOCK, (steps - BLOCK) // BLOCK * BLOCK):
            ours = [
                found.size
                for found in tracemalloc.take_snapshot().statistics("filename")
                if "lightning_gpuprof" in found.traceback[0].filename
            ]
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            seen.append((step, sum(ours), rss))

    tracemalloc.start()
    fit("GpuProfCallback outside its window", "tiny", steps, at_block=look)
    tracemalloc.stop()
    (first, early, early_rss), (last, late, late_rss) = seen
    return {
        "steps": last - first,
        "python_growth_bytes": late - early,
        "peak_rss_growth_bytes": late_rss - early_rss,
    }


if __name__ == "__main__":
    print(json.dumps(step_ns(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
