"""Shared by the programs: the setup of a run, the plain parts of a model, a clock."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

SKIPPED_STEPS = 20


class Module(L.LightningModule):
    """Trains on `loss(batch)`, logs it, and steps with Adam, fused where `fused` is set."""

    fused: bool | None = None

    def loss(self, batch: Any) -> torch.Tensor:
        raise NotImplementedError

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=self.fused)


class Supervised(Module):
    """A network that is told the right answers: its batches are inputs and what is wanted."""

    def __init__(self, *net: nn.Module, loss: Any = nn.functional.cross_entropy) -> None:
        super().__init__()
        self.net, self.criterion = nn.Sequential(*net), loss

    def loss(self, batch: Any) -> torch.Tensor:
        return self.criterion(self.net(batch[0]), batch[1])


class Validated(Supervised):
    """Logs its loss on the second loader, too."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))


class Residual(nn.Sequential):
    """Layers whose result is added to their input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class Items:
    """A data set over a list or tensor; a program says what an item is made into."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)


@dataclass
class Run:
    """One run of a program.

    Args:
        steps: Training steps.
        fixed: Whether the planted cause is mended.
        root: Folder for what the Trainer writes.
        callbacks: Added to the program's own: the profiler or a clock.
    """

    steps: int
    fixed: bool
    root: Path
    callbacks: list[L.Callback] = field(default_factory=list)

    def fit(
        self, module: Any, *loaders: Any, callbacks: Sequence[L.Callback] = (), **options: Any
    ) -> None:
        """Train on the first loader, validate on the second; the options are the Trainer's."""
        usual = {
            "max_steps": self.steps,
            "max_epochs": -1,
            "accelerator": "auto",
            "default_root_dir": self.root,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        trainer = L.Trainer(callbacks=[*callbacks, *self.callbacks], **{**usual, **options})
        trainer.fit(module, *loaders)


class StepClock(L.Callback):
    """Mean wall time of a step from the 20th on, validation and epoch ends included.

    `loss` is the last step's, where it returned one: both forms of a program should learn the same.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.mean_ns: float | None = None
        self.loss: float | None = None
        self._start_ns = 0
        self._outputs: Any = None

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.steps += 1
        self._outputs = outputs
        if self.steps == SKIPPED_STEPS:
            self._start_ns = time.perf_counter_ns()

    def on_train_end(self, *_: Any) -> None:
        if self.steps > SKIPPED_STEPS:
            took_ns = time.perf_counter_ns() - self._start_ns
            self.mean_ns = took_ns / (self.steps - SKIPPED_STEPS)
        if isinstance(self._outputs, dict) and "loss" in self._outputs:
            self.loss = float(self._outputs["loss"])


def shuffled(size: int, *tensors: torch.Tensor, **options: Any) -> DataLoader:
    """Return a loader that fetches the rows of tensors one by one, as most programs do."""
    return DataLoader(TensorDataset(*tensors), batch_size=size, shuffle=True, **options)


def whole_batches(data: Dataset | Sequence[torch.Tensor], size: int) -> DataLoader:
    """Return a loader that indexes a data set, or tensors, once for each batch."""
    if isinstance(data, Sequence):
        data = TensorDataset(*data)
    picks = BatchSampler(RandomSampler(data), size, drop_last=True)  # type: ignore[arg-type]
    return DataLoader(data, sampler=picks, batch_size=None)


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers of these sizes with an activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), act()]
    return nn.Sequential(*layers[:-1])


def convs(
    *layers: tuple[int, int, int, int], dims: int = 2, norm: bool = False, pool: bool = True
) -> nn.Sequential:
    """Return convolutions, each (inputs, outputs, kernel, stride), with ReLU behind; then a mean.

    Args:
        layers: The convolutions, each padded by half its kernel.
        dims: 1 for sequences, 2 for images.
        norm: Whether a batch norm stands before each ReLU.
        pool: Whether the mean over all places follows, flattened.
    """
    conv, batch_norm, mean = {
        1: (nn.Conv1d, nn.BatchNorm1d, nn.AdaptiveAvgPool1d),
        2: (nn.Conv2d, nn.BatchNorm2d, nn.AdaptiveAvgPool2d),
    }[dims]
    net: list[nn.Module] = []
    for inputs, outputs, kernel, stride in layers:
        net.append(conv(inputs, outputs, kernel, stride, kernel // 2))
        net += [batch_norm(outputs), nn.ReLU()] if norm else [nn.ReLU()]
    return nn.Sequential(*net, *([mean(1), nn.Flatten()] if pool else []))


def yes_or_no(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the loss of one score for each row, shaped (rows, 1)."""
    return nn.functional.binary_cross_entropy_with_logits(scores.squeeze(1), wanted)


def cross_entropy(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the loss of scores whose last dimension is the classes."""
    return nn.functional.cross_entropy(scores.flatten(0, -2), wanted.flatten())
