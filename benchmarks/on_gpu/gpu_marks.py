"""What this package costs on a GPU, per step of each of its parts.

    python benchmarks/on_gpu/gpu_marks.py [--json FILE] [--seconds S]

A tiny step is measured within a fit, with and without each variant block by block (`overhead.py`):
whole fits of it differ by several hundred microseconds for no reason of ours. What counts is what
is added outside forward, backward and optimizer, median of the differences of neighbours. Of a long
step whole fits take turns (A B A B ...); medians, with the least and the most beside them.
The file is written anew whenever a figure is there. Where the time is up, what is done so far is
what counts.
"""

import json
import statistics
import sys
import tempfile
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share
sys.path.append(str(Path(__file__).parents[1] / "cost"))

import torch
from _attempt import attempted
from _figures import figure
from lightning.pytorch import Callback, LightningModule, Trainer
from overhead import toggle_row
from overhead_toggle import Blocks, settler
from overhead_variants import BARE, EVERY_STEP, ITEM, KINDS, NO_MARKS, SELF_LOG, fit
from torch import nn
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.adapters.profiler import TorchTrace
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer

ROUNDS = 5
TINY = "tiny, on a GPU"
DEFAULT = "GpuProfCallback outside its window"
TURNS = (
    DEFAULT,
    "DeferredLoss",
    "empty callback",
    "PhaseTimer",
    f"PhaseTimer, {EVERY_STEP}",
    f"PhaseTimer, {EVERY_STEP}, {NO_MARKS}",
    DEFAULT,
    f"{DEFAULT}, {EVERY_STEP}",
    ITEM,
    SELF_LOG,
    DEFAULT,
    "DeferredLoss",
)
"""The first that are judged; a second and a third time, so that they are the sharpest."""


class Model(LightningModule):
    """Linear layers: tiny ones leave the device idle, wide ones the host."""

    def __init__(self, width: int, layers: int, steps: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
        self.width, self.steps = width, steps
        self.skipped = steps // 3  # by then the callback has settled which steps to mark
        self.begin = self.end = 0.0

    def train_dataloader(self) -> Any:
        batch = torch.randn(self.width, self.width).pin_memory()
        return DataLoader([batch] * self.steps, batch_size=None)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == self.skipped:
            torch.cuda.synchronize()
            self.begin = time.perf_counter()
        return self.body(batch).square().mean()

    def on_train_epoch_end(self) -> None:
        torch.cuda.synchronize()
        self.end = time.perf_counter()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-5)


def callbacks(variant: str, folder: str) -> list[Callback]:
    """Return what a variant adds to a bare Trainer."""
    if variant == "marks":
        return [PhaseTimer(console=False, scalars=False, overhead_budget=1.0, log_dir=folder)]
    if variant in ("all", "default"):  # but for the windows in which it traces
        options = {"trace": False, "report": False, "console": False}
        budget = {"overhead_budget": 1.0} if variant == "all" else {}
        return [GpuProfCallback(**options, **budget, log_dir=folder)]
    return []


def us_per_step(variant: str, folder: str, *shape: int) -> float:
    model = Model(*shape)
    trainer = Trainer(
        max_epochs=1,
        accelerator="gpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=callbacks(variant, folder),
    )
    trainer.fit(model)
    return (model.end - model.begin) / (model.steps - model.skipped) * 1e6


def compare(
    variants: tuple[str, ...],
    *shape: int,
    until: float,
    measure: Callable[..., float] = us_per_step,
) -> dict[str, Any]:
    """Compare a bare Trainer with the timer and with all there is.

    "all" marks each step; "default" keeps to its budget, as users have it.

    Args:
        variants: By name.
        *shape: Of the model.
        until: No round begins that would end later, but for the two that are least.
        measure: Trains; tests pass a fake.
    """
    took: dict[str, list[float]] = {name: [] for name in ("bare", *variants)}
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(ROUNDS + 1):
            begun = time.monotonic()
            if round_number > 1 and begun + longest > until:
                break
            for name, kept in took.items():
                where = f"{folder}/{list(took).index(name)}-{round_number}"
                value = measure(name, where, *shape)
                if round_number:  # the first round warms up
                    kept.append(value)
            longest = max(longest, time.monotonic() - begun)
    bare = took["bare"]
    rows: dict[str, Any] = {"rounds": len(bare), "bare_us": spread(bare)}
    for name in variants:
        # Rounds are compared within themselves, as the clocks may change between them.
        added = [one - other for one, other in zip(took[name], bare, strict=True)]
        rows[f"{name} added_us"] = spread(added)
    return rows


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 1),
        "least": round(min(values), 1),
        "most": round(max(values), 1),
    }


def tiny_step(until: float, turns: tuple[str, ...] = TURNS, accelerator: str = "gpu") -> Any:
    """Toggle variants within fits of a tiny step, as many as there is time for.

    Returns:
        By variant, in us: what a step takes without it; what it adds, outside forward, backward and
        optimizer and in all, as mean and median with their standard errors; by its own clock.
    """
    shape = KINDS[TINY]
    fit(BARE, TINY, 2 * shape.block, accelerator=accelerator, at_block=lambda model: None)
    pairs: dict[str, list[dict[str, float]]] = {}
    rows: dict[str, Any] = {}
    longest = 0.0
    for seed, name in enumerate(turns):
        begun = time.monotonic()
        if begun + longest > until:
            break
        count = shape.blocks + shape.settled // shape.block
        blocks = Blocks(0, 0, count, size=shape.block, seed=seed, settle=settler(accelerator))
        steps = 2 * (count + 2) * shape.block
        fit(name, TINY, steps, accelerator=accelerator, at_block=blocks.begin, clock=blocks.clock)
        pairs[name] = pairs.get(name, []) + [asdict(pair) for pair in blocks.pairs()]
        row = toggle_row(pairs[name], shape.settled)
        rows[name] = {
            "bare_us": round(row["bare_ns"] / 1e3),
            "outside_us": in_us(row["later_outside_ns"]),
            "added_us": in_us(row["later_added_ns"]),
        }
        longest = max(longest, time.monotonic() - begun)
    return rows


def in_us(found: dict[str, float] | None) -> dict[str, float] | None:
    """Return an estimate in us."""
    if found is None:
        return None
    return {name: n if name == "count" else round(n / 1e3, 1) for name, n in found.items()}


def after_recording(steps: int = 60, rounds: int = 5) -> dict[str, Any]:
    """Time a host-bound loop before a recording and after two, in ms per step, the least of rounds.

    Whoever leaves CUPTI attached makes each launch slower for the rest of the process; a second
    recording shows that one which was detached can record again.
    """
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(40)]).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    batch = torch.randn(64, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        net(batch).sum().backward()
        optimizer.step()

    def least_ms() -> float:
        medians = []
        for _ in range(rounds):
            torch.cuda.synchronize()
            times = []
            for _ in range(steps):
                begin = time.perf_counter_ns()
                step()
                torch.cuda.synchronize()
                times.append(time.perf_counter_ns() - begin)
            medians.append(statistics.median(times))
        return round(min(medians) / 1e6, 3)

    def recorded() -> int:
        options = {"record_shapes": False, "profile_memory": False, "with_stack": False}
        trace = TorchTrace(device_type="cuda", on_intruder=trace_ended, **options)
        trace.prepare()
        step()
        trace.start()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        trace.stop()
        with tempfile.TemporaryDirectory() as folder:
            trace.export(f"{folder}/trace.json")
            events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
        return sum(event.get("cat") == "kernel" for event in events)

    for _ in range(20):
        step()
    times, kernels = [least_ms()], []
    for _ in range(2):
        kernels.append(recorded())
        times.append(least_ms())
    return {"step_ms": times, "kernels": kernels}


def trace_ended() -> None:
    """Nobody else records here."""
    raise RuntimeError("another profiler has begun")


def judge(figures: dict[str, Any]) -> int:
    """Hold the costs against what is promised; returns how many are beyond it."""

    def median(step: str, *rows: str) -> float | None:
        found = figures[step]
        for row in rows:
            found = (found or {}).get(row)  # not there where measuring failed
        return None if found is None else float(found["median"])

    added, deferred = (
        median("tiny_step", variant, "outside_us") for variant in (DEFAULT, "DeferredLoss")
    )
    long, more = median("long_step", "bare_us"), median("long_step", "default added_us")
    share = None if long is None or more is None else more / long
    after = figures["after_recording"]
    before_ms, *later_ms = after.get("step_ms", [None])
    kernels = after.get("kernels", [])
    slower = max(later_ms) / before_ms - 1 if later_ms else None
    again = kernels[1] / kernels[0] if kernels and kernels[0] else None
    kept = [
        figure("trace: share that a step is slower after recordings", slower, most=0.12),
        figure("trace: kernels of a second recording, of the first one's", again, least=1.0),
        figure("timing: µs that GpuProfCallback adds to a tiny step", added, most=40),
        figure("syncs: µs that DeferredLoss adds to a tiny step", deferred, most=10),
        figure("timing: share that GpuProfCallback adds to a long step", share, most=0.005),
        figure("timing: µs of the long step", long, least=5e3, most=2e4),
    ]
    return kept.count(False) + sum("failure" in row for row in figures.values())


def main() -> int:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    parser.add_argument("--seconds", type=float, default=120.0, help="time for all rounds")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    begun = time.monotonic()
    figures: dict[str, Any] = {}
    most, whole = begun + 0.8 * chosen.seconds, begun + chosen.seconds
    for name, measure in (
        ("after_recording", after_recording),
        ("tiny_step", lambda: tiny_step(most)),
        ("long_step", lambda: compare(("marks", "all", "default"), 2048, 8, 120, until=whole)),
    ):
        figures[name] = attempted(measure)
        print(f"{name}: {json.dumps(figures[name], indent=1)}", flush=True)
        if chosen.json:
            chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return judge(figures)


if __name__ == "__main__":
    raise SystemExit(main())
