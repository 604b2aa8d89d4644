"""What this package costs on a GPU: per mark on the device, and per step of each of its parts.

    python benchmarks/gpu_marks.py [--json FILE] [--seconds S]

Variants take turns in one process (A B A B ...); medians, with the least and the most beside them.
The file is written anew whenever a figure is there. Where the time is up, the rounds done so far
are what counts.
"""

import json
import statistics
import tempfile
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.probes.clock.device_events import TorchEvents
from lightning_gpuprof.probes.clock.device_marks import DeviceMarks
from lightning_gpuprof.probes.clock.device_rows import OUTSIDE

ROUNDS, SKIPPED = 5, 50
LOSSES = ("loss.item()", 'self.log("loss", loss)', "DeferredLoss")


class Model(LightningModule):
    """Linear layers: tiny ones leave the device idle, wide ones the host."""

    def __init__(self, width: int, layers: int, steps: int, reading: str) -> None:
        super().__init__()
        self.body = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
        self.width, self.steps, self.reading = width, steps, reading
        self.begin = self.end = 0.0

    def train_dataloader(self) -> Any:
        batch = torch.randn(self.width, self.width).pin_memory()
        return DataLoader([batch] * self.steps, batch_size=None)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == SKIPPED:
            torch.cuda.synchronize()
            self.begin = time.perf_counter()
        loss = self.body(batch).square().mean()
        if self.reading == "loss.item()":
            loss.item()
        elif self.reading == 'self.log("loss", loss)':
            self.log("loss", loss)
        return loss

    def on_train_epoch_end(self) -> None:
        torch.cuda.synchronize()
        self.end = time.perf_counter()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-5)


def callbacks(variant: str, folder: str) -> list[Callback]:
    """Return what a variant adds to a bare Trainer."""
    if variant in ("host", "marks"):
        return [
            PhaseTimer(
                console=False,
                scalars=False,
                device_marks=variant == "marks",
                overhead_budget=1.0,
                log_dir=folder,
            )
        ]
    if variant == "all":  # of GpuProfCallback, but for the windows in which it traces
        options = {"trace": False, "sync_steps": 0, "report": False, "console": False}
        return [GpuProfCallback(**options, overhead_budget=1.0, log_dir=folder)]
    return [DeferredLoss()] if variant == "DeferredLoss" else []


def us_per_step(variant: str, folder: str, *shape: int) -> float:
    logged = variant in LOSSES
    model = Model(*shape, variant)
    trainer = Trainer(
        max_epochs=1,
        accelerator="gpu",
        devices=1,
        logger=CSVLogger(folder) if logged else False,
        log_every_n_steps=1 if logged else 50,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=callbacks(variant, folder),
    )
    trainer.fit(model)
    return (model.end - model.begin) / (model.steps - SKIPPED) * 1e6


def compare(
    variants: tuple[str, ...],
    *shape: int,
    until: float,
    measure: Callable[..., float] = us_per_step,
) -> dict[str, Any]:
    """Compare a bare Trainer with the timer on the host alone, with marks, with all there is.

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


def alone(count: int = 1000) -> dict[str, Any]:
    """Time the marks without a Trainer: recording one, taking one in, calibrating."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    marks = DeviceMarks(TorchEvents(), time.perf_counter_ns)
    calibrated = marks.calibrate()
    for _ in range(2):  # the first round makes the events
        begin = time.perf_counter_ns()
        for number in range(count):
            marks.mark(number // 10, number % 10, begin)
        recorded = time.perf_counter_ns()
        marks.mark(OUTSIDE, 0, recorded)
        torch.cuda.synchronize()
        left = marks.in_flight  # most were taken in on the way, as in training
        harvest = time.perf_counter_ns()
        marks.harvest()
        harvested = time.perf_counter_ns()
    begin_calibration = time.perf_counter_ns()
    marks.calibrate()
    return {
        "record_us_per_mark": round((recorded - begin) / count / 1000, 2),
        "harvest_us_per_mark": round((harvested - harvest) / left / 1000, 2),
        "calibrated": calibrated,
        "calibration_error_us": None if not calibrated else (marks.clock.error_ns or 0) / 1000,
        "calibration_us": round((time.perf_counter_ns() - begin_calibration) / 1000, 1),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    parser.add_argument("--seconds", type=float, default=120.0, help="time for all rounds")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    begun = time.monotonic()
    figures: dict[str, Any] = {}
    for name, measure in (
        ("alone", alone),
        ("tiny_step", lambda: compare(
            ("host", "marks", "all", *LOSSES), 64, 2, 400, until=begun + 0.6 * chosen.seconds)),
        ("long_step", lambda: compare(
            ("host", "marks", "all"), 2048, 8, 120, until=begun + chosen.seconds)),
    ):  # fmt: skip
        figures[name] = measure()
        print(f"{name}: {json.dumps(figures[name], indent=1)}", flush=True)
        if chosen.json:
            chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
