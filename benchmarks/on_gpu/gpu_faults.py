"""Faults that only a GPU has: is the first finding right, and does its fix save as predicted?

    python benchmarks/on_gpu/gpu_faults.py [--json FILE] [--runs FOLDER] [--seconds S]

First each fault and its fix take turns without any profiler: once one has recorded, what it hooked
into the driver may slow down later fits of the process. Then each fault is trained once under
GpuProfCallback and asked about with `lightning-gpuprof report --json`, in a process of its own, as
a user would.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

import torch
from _figures import figure
from _harness import QUIET, findings_of, report
from _part import attempted, keep, options
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback

STEPS, WARM, ROUNDS = 120, 20, 3
"""Of more than the callback's first 50 steps, all of which it marks."""
SECONDS_TO_JUDGE = 4.0
"""A fit under the callback, its trace's analysis and the report."""
LONG = 240
"""Steps where the device holds the run back: until its queue of 1,024 launches is full, for some 40
steps, the host's clock says what it takes to launch a step, and not what a step takes."""
SLOW = 60
"""Steps that take more than 10 ms."""
WIDE = 2048


class Model(LightningModule):
    """Linear layers; what a fault needs beyond is in `extra`."""

    def __init__(
        self,
        *,
        width: int = WIDE,
        layers: int = 4,
        batch: int = WIDE,
        pinned: bool = True,
        precision: str = "high",
        extra: Callable[[torch.Tensor], Any] = lambda out: None,
        graphed: bool = False,
        steps: int = STEPS,
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
        self.width, self.batch, self.pinned = width, batch, pinned
        self.precision, self.extra, self.steps = precision, extra, steps
        self.graphed = graphed
        self.begin = self.end = 0.0

    def train_dataloader(self) -> Any:
        data = torch.randn(self.batch, self.width)
        batch = data.pin_memory() if self.pinned else data
        return DataLoader([batch] * self.steps, batch_size=None)

    def on_train_start(self) -> None:
        torch.set_float32_matmul_precision(self.precision)
        if self.graphed:
            like = torch.zeros(self.batch, self.width, device=self.device)
            torch.cuda.make_graphed_callables(self.body, (like,))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == WARM:
            torch.cuda.synchronize()
            self.begin = time.perf_counter()
        out = self.body(batch)
        self.extra(out.detach())
        return out.square().mean()

    def on_train_epoch_end(self) -> None:
        torch.cuda.synchronize()
        self.end = time.perf_counter()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-5)


def many_small(out: torch.Tensor) -> None:
    for row in range(300):
        out[row % len(out), :16].add(1.0)


def one_small(out: torch.Tensor) -> None:
    out[:300, :16].add(1.0)


def read_in_loop(out: torch.Tensor) -> float:
    return sum(out[row].sum().item() for row in range(30))


def read_not(out: torch.Tensor) -> torch.Tensor:
    return out[:30].sum()


@dataclass(frozen=True)
class Fault:
    """A fault, its fix, and the findings that name it rightly.

    Args:
        samples: How many times the samples of a faulty step a fixed one takes.
        proposed: What is held against the prediction, where the findings promise the saving of
            another change than the fix: none says what a larger batch gains.
    """

    findings: tuple[str, ...]
    faulty: dict[str, Any]
    fixed: dict[str, Any]
    samples: int = 1
    proposed: dict[str, Any] | None = None


FAULTS = {
    "pageable copies": Fault(
        ("slow-host-to-device-copy",),
        {"batch": 8 * WIDE, "layers": 1, "pinned": False, "steps": SLOW},
        {"batch": 8 * WIDE, "layers": 1, "steps": SLOW},
    ),
    "tiny kernels": Fault(
        ("small-kernels", "host-bound"), {"batch": 512, "extra": many_small},
        {"batch": 512, "extra": one_small},
    ),
    "fp32 products": Fault(
        ("low-precision-unused",), {"precision": "highest", "steps": LONG}, {"steps": LONG}
    ),
    "small batch": Fault(
        ("host-bound", "small-kernels", "unused-vram"),
        {"batch": 8, "width": 512},
        {"batch": 512, "width": 512},
        samples=64,
        proposed={"batch": 8, "width": 512, "graphed": True},
    ),
    "reads in a loop": Fault(
        ("host-sync",), {"extra": read_in_loop}, {"extra": read_not}
    ),
}  # fmt: skip


def fit(model_options: dict[str, Any], folder: str, *callbacks: Any) -> float:
    """Train and return the time per step in ns."""
    torch.manual_seed(0)
    model = Model(**model_options)
    trainer = Trainer(
        max_epochs=1,
        accelerator="gpu",
        devices=1,
        **QUIET,
        default_root_dir=folder,
        callbacks=list(callbacks),
    )
    trainer.fit(model)
    return (model.end - model.begin) / (model.steps - WARM) * 1e9


def measured(fault: Fault, until: float) -> dict[str, Any]:
    """Return what a fault's fix saves; after `until` no round begins."""
    saved, as_proposed, faulty = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        while not saved or (len(saved) < ROUNDS and time.monotonic() < until):
            faulty.append(fit(fault.faulty, folder))
            saved.append(faulty[-1] - fit(fault.fixed, folder) / fault.samples)
            if fault.proposed is not None:
                as_proposed.append(faulty[-1] - fit(fault.proposed, folder))
    row: dict[str, Any] = {
        "rounds": len(saved),
        "step_ns": round(statistics.median(faulty)),
        "saved_ns": round(statistics.median(saved)),
        "each_step_ns": [round(one) for one in faulty],
        "each_saved_ns": [round(one) for one in saved],
    }
    if as_proposed:
        row["saved_as_proposed_ns"] = round(statistics.median(as_proposed))
    return row


def judged(name: str, fault: Fault, run: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of a fault beside what its fix saved."""
    window = {"wait": 10, "warmup": 2, "active": 4, "repeat": 0}
    fit(fault.faulty, run, GpuProfCallback(log_dir=run, **window, report=False, console=False))
    said = findings_of(report(run))
    named = next((one for one in said if one["id"] in fault.findings), None)
    predicted = None if named is None else named["saving_ns"]
    if predicted and predicted["high"]:
        saved = row.get("saved_as_proposed_ns", row["saved_ns"])
        inside = predicted["low"] <= saved <= predicted["high"]
        figure(f"faults: {name}, saving within what was predicted", float(inside), least=1)
    return {
        **row,
        "said": [(one["id"], one["severity"], one["saving_ns"]) for one in said],
        "first": bool(said) and said[0]["id"] in fault.findings,
        "predicted_ns": predicted,
        "recorded_step_ns": None if named is None else named["evidence"].get("step_ns"),
    }


def main() -> int:
    parser = options(__doc__, seconds=120.0)
    parser.add_argument("--runs", type=Path, help="where the runs' folders stay")
    chosen = parser.parse_args()
    runs = chosen.runs or Path(tempfile.mkdtemp(prefix="gpuprof-faults-"))
    begun = time.monotonic()
    until = begun + max(0.0, chosen.seconds - SECONDS_TO_JUDGE * len(FAULTS))
    found: dict[str, Any] = {}
    for number, (name, fault) in enumerate(FAULTS.items()):
        now = time.monotonic()
        share = now + (until - now) / (len(FAULTS) - number)
        found[name] = attempted(partial(measured, fault, share))
    for name, fault in FAULTS.items():
        if time.monotonic() > begun + chosen.seconds:
            found[name]["left out"] = "no time was left"
        else:
            if "saved_ns" in found[name]:
                run = str(runs / name.replace(" ", "-"))
                found[name] |= attempted(partial(judged, name, fault, run, found[name]))
            first = float(found[name]["first"]) if "first" in found[name] else None
            figure(f"faults: {name} named first", first, least=1)
        found[name] = {"first": False} | found[name]
        print(f"{name:16} {json.dumps(found[name])}", flush=True)
        keep(found, chosen.json)
    return sum(not row["first"] for row in found.values())


if __name__ == "__main__":
    sys.exit(main())
