"""The training run that faults are put into: a small network on one CPU core, 10-20 ms a step.

It takes its own time: every `training_step` notes when it began, so that the mean time of a step
between two such moments holds everything that a step costs (data, callbacks, validation,
checkpoints) without any profiler.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, Logger
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

FEATURES, WIDTH, TARGETS, BATCH = 256, 896, 32, 64
WARM_STEPS, TIMED_STEPS = 60, 180
BLOCK_STEPS = 60
"""Two runs are compared by blocks of this many steps: one period of whatever happens so often."""
TURN_STEPS = 10
"""They take turns by this many: the nearer in time two turns are, the less the machine has
changed between them."""


class Rows(Dataset[tuple[Tensor, Tensor]]):
    """A table in memory: the cheapest honest dataset."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(count, FEATURES, generator=generator)
        mix = torch.randn(FEATURES, TARGETS, generator=generator) / FEATURES**0.5
        self.targets = torch.tanh(self.inputs @ mix)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def as_made(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Collate nothing: the data set makes whole batches."""
    return batch


class Workload(L.LightningModule):
    """A regression by a multilayer perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.began_ns: list[int] = []
        self.turns: Turns | None = None
        self.net = nn.Sequential(
            nn.Linear(FEATURES, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, TARGETS),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs)

    def loss(self, batch: Any) -> Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self(inputs), targets)

    def note_begin(self) -> None:
        """Note when this training step began; every `training_step` calls it first.

        A run that takes turns with another waits here; its clock stands still meanwhile.
        """
        waited_ns = 0 if self.turns is None else self.turns.waited_ns(len(self.began_ns))
        self.began_ns.append(time.perf_counter_ns() - waited_ns)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        self.note_begin()
        return self.loss(batch)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


class ManyParameters(Workload):
    """The workload with many small parameters, from which optimizers and loops over them suffer."""

    def __init__(self, *, extra: int) -> None:
        super().__init__()
        self.gains = nn.ParameterList(torch.randn(16) for _ in range(extra))

    def loss(self, batch: Any) -> Tensor:
        if not len(self.gains):
            return super().loss(batch)
        return super().loss(batch) + 1e-6 * torch.cat(list(self.gains)).square().mean()


@dataclass
class Setup:
    """One training run; a cause returns one with the fault in it and one with the fix."""

    module: Callable[[], Workload] = Workload
    dataset: Callable[[int], Dataset[Any]] = Rows
    loader: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the training DataLoader."""
    val_dataset: Callable[[], Dataset[Any]] | None = None
    val_loader: Mapping[str, Any] = field(default_factory=dict)
    trainer: Mapping[str, Any] = field(default_factory=dict)
    callbacks: tuple[Callable[[], Callback], ...] = ()
    logger: Callable[[str], Logger] = CSVLogger
    epoch_steps: int | None = None
    """Steps per epoch; one epoch is the whole run where None."""
    warm_steps: int = WARM_STEPS
    timed_steps: int = TIMED_STEPS
    """Whole periods of whatever happens only every so often."""
    block_steps: int = BLOCK_STEPS
    """One such period, or several."""

    @property
    def turn_steps(self) -> int:
        """Steps per turn where this run takes turns with another.

        Workers go on while the run waits, and give each turn a batch or two for nothing: theirs
        are long.
        """
        return BLOCK_STEPS if self.workers else TURN_STEPS

    @property
    def workers(self) -> int:
        """Worker processes of the training loader."""
        return self.loader.get("num_workers", 0)

    def every(self, steps: int) -> "Setup":
        """Return the same run timed in whole periods of something that comes every so often."""
        block = max(steps, TURN_STEPS)
        return replace(self, block_steps=block, timed_steps=-(-TIMED_STEPS // block) * block)


@dataclass(frozen=True)
class Fitted:
    """Times of one run."""

    step_ns: float
    """Mean wall time of the timed steps, everything included."""
    median_ns: float
    """The median of them: how fast the machine was."""
    log_dir: str
    block_ns: tuple[float, ...]
    """The mean of each block of timed steps."""


def fit(
    setup: Setup, folder: str, callbacks: tuple[Callback, ...] = (), turns: Turns | None = None
) -> Fitted:
    """Train once; `callbacks` are a profiler's, none for a bare run."""
    torch.set_num_threads(1)
    L.seed_everything(0, verbose=False)
    steps = setup.warm_steps + setup.timed_steps + 1
    per_epoch = setup.epoch_steps or steps
    model = setup.module()
    if turns is not None:
        turns.begin(setup.warm_steps)
        model.turns = turns
    trainer = _trainer(setup, folder, callbacks, steps)
    # Collect once before the steps: workers inherit the collector's counters, and a nearly full
    # one would make each of them go through everything that was imported.
    gc.collect()
    try:
        trainer.fit(model, _train_loader(setup, per_epoch), _val_loader(setup))
    finally:
        if turns is not None:
            turns.end()
    began = model.began_ns
    if len(began) < steps:
        raise RuntimeError(f"only {len(began)} training steps ran instead of {steps}")
    block = setup.block_steps
    timed = began[setup.warm_steps : steps]
    return Fitted(
        step_ns=(timed[-1] - timed[0]) / setup.timed_steps,
        median_ns=statistics.median(end - start for start, end in pairwise(timed)),
        log_dir=str(trainer.log_dir),
        block_ns=tuple((end - start) / block for start, end in pairwise(timed[::block])),
    )


def _trainer(setup: Setup, folder: str, callbacks: tuple[Callback, ...], steps: int) -> L.Trainer:
    options: dict[str, Any] = {
        "max_steps": _optimizer_steps(setup, steps),
        "max_epochs": -1,
        "accelerator": "cpu",
        "devices": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "num_sanity_val_steps": 0,
        **setup.trainer,
    }
    return L.Trainer(
        default_root_dir=folder,
        logger=setup.logger(folder),
        callbacks=[*(make() for make in setup.callbacks), *callbacks],
        **options,
    )


def _optimizer_steps(setup: Setup, steps: int) -> int:
    """Lightning's max_steps counts optimizer steps: a GAN makes two of them per batch."""
    accumulated = setup.trainer.get("accumulate_grad_batches", 1)
    return -(-steps // accumulated) * getattr(setup.module, "optimizer_steps", 1)


def _train_loader(setup: Setup, per_epoch: int) -> DataLoader[Any]:
    options = {"batch_size": BATCH, "shuffle": True, **setup.loader}
    if "batch_sampler" in options:
        del options["batch_size"], options["shuffle"]
    count = per_epoch * (options.get("batch_size", BATCH) or 1)
    dataset = setup.dataset(count)
    if callable(options.get("batch_sampler")):
        options["batch_sampler"] = options["batch_sampler"](dataset)
    return DataLoader(dataset, **options)


def _val_loader(setup: Setup) -> DataLoader[Any] | None:
    if setup.val_dataset is None:
        return None
    return DataLoader(setup.val_dataset(), **{"batch_size": BATCH, **setup.val_loader})
