"""Small fits on the CPU that become slower at a step, and fits that do not."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.logger import Logger
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lightning_gpuprof import GpuProfCallback

STEPS, CLEAN_STEPS = 2_000, 5_000
EVERY = 40
"""Spikes recur after so many steps."""
WIDTH, BATCH = 256, 96
MEASURED = range(60, 140)
"""The steps by which the planted times are scaled."""
_BLOCK = 4_096


@dataclass(frozen=True)
class Case:
    """A slow-down to plant, or a clean run.

    Args:
        cause: What becomes slower, or the flavour of a clean run.
        shape: step, ramp or spikes; empty for a clean run.
        size: What it costs per step as a share of the step; of a ramp, per step 100 steps later.
        seed: Chooses the step at which it begins.
    """

    cause: str
    shape: str = ""
    size: float = 0.0
    seed: int = 0

    @property
    def name(self) -> str:
        """A name for results and for resuming."""
        return f"{self.cause}-{self.shape or 'clean'}-{self.size * 100:.0f}-{self.seed}"

    @property
    def onset(self) -> int:
        """The first slow step."""
        return random.Random(self.name).randrange(int(0.35 * STEPS), int(0.6 * STEPS))


class Plant:
    """Says what is planted in a step, once the usual step is known."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.step = 0
        self.step_ns = 1_500_000

    @property
    def active(self) -> bool:
        """Whether the slow-down has begun, and this is a slow step."""
        since = self.step - self.case.onset
        return since >= 0 and (self.case.shape != "spikes" or since % EVERY == 0)

    def ns(self, cause: str) -> int:
        """Return by how many ns the running step is longer, if this is the cause."""
        if cause != self.case.cause or not self.active:
            return 0
        factor = {"step": 1.0, "spikes": float(EVERY)}.get(
            self.case.shape, (self.step - self.case.onset) / 100
        )
        return round(self.case.size * factor * self.step_ns)


class Rows(Dataset[torch.Tensor]):
    """Random rows, and a file that is read for some of them."""

    def __init__(self, plant: Plant, length: int, folder: str) -> None:
        self.plant, self.length = plant, length
        self.table = torch.randn(512, WIDTH)
        self.file, self.blocks = -1, 0
        if plant.case.cause == "page cache":
            path = os.path.join(folder, "rows.bin")
            with open(path, "wb") as file:
                file.write(os.urandom(64 << 20))
                os.fsync(file.fileno())
            self.file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
            self.blocks = max(1, round(plant.case.size * plant.step_ns / self._cold_ns()))

    def _cold_ns(self) -> float:
        times = []
        for _ in range(50):
            begun = time.perf_counter_ns()
            self._read(1, cold=True)
            times.append(time.perf_counter_ns() - begun)
        return median(times)

    def _read(self, blocks: int, *, cold: bool) -> None:
        for _ in range(blocks):
            at = random.randrange(0, (64 << 20) // _BLOCK) * _BLOCK
            if cold:
                os.posix_fadvise(self.file, at, _BLOCK, os.POSIX_FADV_DONTNEED)
            os.pread(self.file, _BLOCK, at)  # planted: page cache

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        row = self.table[index % 512]
        if index % BATCH == 0:
            end = time.perf_counter_ns() + self.plant.ns("loader")
            while time.perf_counter_ns() < end:  # planted: loader
                row = row + 0.0
            if self.blocks:
                times = EVERY if self.plant.case.shape == "spikes" else 1
                self._read(self.blocks * times, cold=self.plant.active)
        return row


class Net(LightningModule):
    """A few layers, in which a slow-down may be planted."""

    def __init__(self, plant: Plant) -> None:
        super().__init__()
        self.plant = plant
        self.net = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8),
        )  # fmt: skip
        self.seen: list[float] = []
        self.context = torch.randn(64 * BATCH, WIDTH)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        plant = self.plant
        if (more := plant.ns("growing input")) > 0:
            rows = min(len(self.context), round(BATCH * more / plant.step_ns))
            batch = torch.cat([batch, self.context[:rows]])
        end = time.perf_counter_ns() + plant.ns("forward")
        while time.perf_counter_ns() < end:  # planted: forward
            batch = batch + 0.0
        loss: torch.Tensor = self.net(batch).square().mean()
        if plant.case.cause == "growing list" and plant.active:
            # A pass takes some 12 ns per element.
            self.seen.extend([0.5] * max(1, round(plant.case.size * plant.step_ns / 100 / 12)))
            total = sum(value for value in self.seen)  # planted: growing list
            loss = loss + 0.0 * total
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.log("val_loss", self.net(batch).square().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3, momentum=0.9)


class Program(Callback):
    """Counts the steps, and holds what is planted in a callback."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.times: list[int] = []
        self.last_ns = 0
        self.held: list[list[int]] = []
        self.seen: list[float] = []
        self.rival: Rival | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.plant.case.cause == "garbage":
            gc.freeze()  # only what this callback holds is gone through
        if self.plant.case.cause == "process":
            self.rival = Rival()

    def on_train_batch_end(self, *_: Any) -> None:
        plant = self.plant
        now = time.perf_counter_ns()
        if plant.step in MEASURED:
            self.times.append(now - self.last_ns)
            plant.step_ns = int(median(self.times))
        self.last_ns = now
        if self.plant.case.cause == "garbage" and plant.active:
            self._collect()
        end = time.perf_counter_ns() + plant.ns("callback")
        while time.perf_counter_ns() < end:  # planted: callback
            pass
        if plant.case.cause == "callback list" and plant.active:
            self.seen.extend([0.5] * max(1, round(plant.case.size * plant.step_ns / 100 / 12)))
            sum(value for value in self.seen)  # planted: callback list
        if self.rival is not None and plant.active:
            if plant.case.shape == "spikes":
                self.rival.burst(plant.ns("process"))
            elif plant.step == plant.case.onset:
                self.rival.begin(plant.case.size)
        plant.step += 1

    def _collect(self) -> None:
        # A full collection goes through some 25 ns per object.
        more = max(1, round(self.plant.ns("garbage") / 25)) - len(self.held)
        self.held.extend([[index] for index in range(more)])
        gc.collect()  # planted: garbage

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.rival is not None:
            self.rival.close()


class Rival:
    """Another process on the core of this one, which is confined to it."""

    def __init__(self) -> None:
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
        text = (
            "import random, sys, time\n"
            "for line in sys.stdin:\n"
            "    busy_ns, idle_ns = map(int, line.split())\n"
            "    time.sleep(random.random() * 2e-3)  # somewhere in a step\n"
            "    while True:\n"
            "        end = time.perf_counter_ns() + busy_ns\n"
            "        while time.perf_counter_ns() < end: pass\n"
            "        if not idle_ns: break\n"
            "        time.sleep(idle_ns / 1e9 * random.uniform(0.5, 1.5))\n"
        )
        self.child = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def begin(self, size: float) -> None:
        """Take `size` of the time that training has, from now on."""
        if size >= 1:
            self._say(1_000_000_000, 1_000)
        else:
            self._say(round(20_000_000 * size), 20_000_000)

    def burst(self, ns: int) -> None:
        """Take the core once."""
        self._say(ns, 0)

    def _say(self, busy_ns: int, idle_ns: int) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{busy_ns} {idle_ns}\n")
        self.child.stdin.flush()

    def close(self) -> None:
        """End it."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


class SlowLogger(Logger):
    """A logger that keeps nothing, in which a slow-down may be planted."""

    def __init__(self, plant: Plant, folder: str) -> None:
        super().__init__()
        self.plant, self.folder = plant, folder

    @property
    def name(self) -> str:
        return "slow"

    @property
    def version(self) -> str:
        return "0"

    @property
    def log_dir(self) -> str:
        return self.folder

    @property
    def save_dir(self) -> str:
        return self.folder

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        pass

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        end = time.perf_counter_ns() + self.plant.ns("logger")
        while time.perf_counter_ns() < end:  # planted: logger
            pass


def train(case: Case, folder: str) -> None:
    """Train a case with the callback; the records are in `folder`."""
    torch.set_num_threads(1)
    seed_everything(1, verbose=False)
    plant = Plant(case)
    if not case.shape:
        _train_clean(case, plant, folder)
        return
    data = DataLoader(Rows(plant, BATCH * STEPS, folder), batch_size=BATCH)
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=SlowLogger(plant, folder),
        log_every_n_steps=1 if case.cause == "logger" else 50,
        callbacks=[GpuProfCallback(log_dir=folder, console=False, report=False), Program(plant)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(plant), data)


class Sequences(Dataset[torch.Tensor]):
    """Batches of rows, as many as a flavour says."""

    def __init__(self, flavour: str, seed: int) -> None:
        draw = random.Random(seed)
        self.rows = [_rows(flavour, step, draw) for step in range(CLEAN_STEPS // 5)]
        self.table = torch.randn(2 * BATCH, WIDTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.table[: self.rows[index]].clone()


def _rows(flavour: str, step: int, draw: random.Random) -> int:
    if flavour == "lengths":
        return draw.randrange(BATCH // 2, 2 * BATCH)
    if flavour == "sorted":
        return BATCH // 2 + step * BATCH // (CLEAN_STEPS // 5)
    return BATCH


class Curriculum(Callback):
    """Longer batches in later epochs."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        data: Any = trainer.train_dataloader.dataset  # type: ignore[union-attr]
        data.rows = [BATCH // 2 + trainer.current_epoch * BATCH // 5] * len(data.rows)


CLEAN: dict[str, Callable[[], list[Callback]]] = {
    "plain": list, "lengths": list, "sorted": list, "curriculum": lambda: [Curriculum()],
    "compiled": list,
}  # fmt: skip


def _train_clean(case: Case, plant: Plant, folder: str) -> None:
    module: Any = Net(plant)
    if case.cause == "compiled":
        module.net = torch.compile(module.net, backend="aot_eager")
    kwargs: dict[str, Any] = (
        {"num_workers": 1, "persistent_workers": True} if case.seed == 3 else {}
    )
    data = DataLoader(Sequences(case.cause, case.seed), batch_size=None, **kwargs)
    validation = DataLoader(torch.randn(640, WIDTH), batch_size=BATCH)
    trainer = Trainer(
        max_epochs=5,
        accelerator="cpu",
        logger=CSVLogger(folder, name="", version=""),
        val_check_interval=400 if case.seed % 2 else None,
        check_val_every_n_epoch=1,
        callbacks=[
            GpuProfCallback(log_dir=folder, console=False, report=False),
            ModelCheckpoint(dirpath=os.path.join(folder, "checkpoints"), every_n_train_steps=700),
            *CLEAN[case.cause](),
        ],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, data, validation)


def line_of(cause: str) -> int | None:
    """Return the line at which a cause is planted; None if it has none."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    marked = (
        number for number, line in enumerate(lines, 1) if line.endswith(f"# planted: {cause}")
    )
    return next(marked, None)


if __name__ == "__main__":  # a single case by hand: programs.py CAUSE SHAPE SIZE
    multiprocessing.set_start_method(None, force=True)
    cause, shape, size = sys.argv[1:4]
    case = Case(cause, shape, float(size))
    folder = tempfile.mkdtemp()
    train(case, folder)
    print(case.onset, folder)
