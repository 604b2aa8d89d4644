"""What marks on the device cost, on a GPU: per mark, and per step with and without them.

    python benchmarks/gpu_marks.py [--json FILE]

Variants take turns in one process (A B A B ...); medians, with the least and the most beside them.
"""

import json
import statistics
import tempfile
import time
import warnings
from argparse import ArgumentParser
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.probes.device_events import TorchEvents
from lightning_gpuprof.probes.device_marks import OUTSIDE, DeviceMarks

ROUNDS, SKIPPED = 5, 50


class Model(LightningModule):
    """Linear layers: tiny ones leave the device idle, wide ones the host."""

    def __init__(self, width: int, layers: int, steps: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
        self.width, self.steps = width, steps
        self.begin = self.end = 0.0

    def train_dataloader(self) -> Any:
        return DataLoader([torch.randn(self.width, self.width)] * self.steps, batch_size=None)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == SKIPPED:
            torch.cuda.synchronize()
            self.begin = time.perf_counter()
        return self.body(batch).square().mean()

    def on_train_epoch_end(self) -> None:
        torch.cuda.synchronize()
        self.end = time.perf_counter()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-5)


def us_per_step(model: Model, callback: PhaseTimer | None, folder: str) -> float:
    trainer = Trainer(
        max_epochs=1,
        accelerator="gpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[] if callback is None else [callback],
    )
    trainer.fit(model)
    return (model.end - model.begin) / (model.steps - SKIPPED) * 1e6


def compare(*shape: int) -> dict[str, Any]:
    """Compare a bare Trainer with the timer on the host alone, and with marks on the device."""
    took: dict[str, list[float]] = {"bare": [], "host": [], "marks": []}
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(ROUNDS + 1):
            for name, kept in took.items():
                callback = PhaseTimer(
                    console=False,
                    scalars=False,
                    device_marks=name == "marks",
                    overhead_budget=1.0,
                    log_dir=f"{folder}/{name}-{round_number}",
                )
                value = us_per_step(Model(*shape), None if name == "bare" else callback, folder)
                if round_number:  # the first round warms up
                    kept.append(value)
    described = {name: spread(values) for name, values in took.items()}
    bare = statistics.median(took["bare"])
    added = {
        f"{name}_added_us": round(statistics.median(took[name]) - bare, 1)
        for name in ("host", "marks")
    }
    return described | added


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median_us": round(statistics.median(values), 1),
        "least_us": round(min(values), 1),
        "most_us": round(max(values), 1),
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
        harvest = time.perf_counter_ns()
        marks.harvest()
        harvested = time.perf_counter_ns()
    begin_calibration = time.perf_counter_ns()
    marks.calibrate()
    return {
        "record_us_per_mark": round((recorded - begin) / count / 1000, 2),
        "harvest_us_per_mark": round((harvested - harvest) / count / 1000, 2),
        "calibrated": calibrated,
        "calibration_error_us": None if not calibrated else (marks.clock.error_ns or 0) / 1000,
        "calibration_us": round((time.perf_counter_ns() - begin_calibration) / 1000, 1),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="where the figures go as well")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    figures = alone()
    figures["tiny_step"] = compare(64, 2, 400)
    figures["long_step"] = compare(2048, 8, 150)
    text = json.dumps(figures, indent=1)
    print(text)
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
