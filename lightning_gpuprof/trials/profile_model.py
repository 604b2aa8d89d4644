"""Profiles a plain model over a loader, for users without a LightningModule and a Trainer."""

import inspect
import math
import os
from collections.abc import Iterable, Mapping
from operator import length_hint
from typing import Any

import torch
from torch.utils.data import DataLoader
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.report.run_report import RunReport, report
from lightning_gpuprof.runtime.switch import VARIABLE, is_off
from lightning_gpuprof.tensors import leaves_of

TRACED_STEPS = 3
"""Steps that torch.profiler records. They follow the timed steps, since recording slows them
down."""


def profile_model(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    warmup: int = 5,
    steps: int = 20,
    grad: bool = False,
    device: torch.device | str | None = None,
) -> RunReport:
    """Time a model's steps over a loader, and record the last few with torch.profiler.

    A batch that is a mapping is passed as keyword arguments. A tuple or list is passed as
    positional arguments, as many as `forward` takes: a model with a single argument gets the
    images of `(images, labels)`. Records and trace are written to `lightning_logs/version_<n>`,
    where TensorBoard finds them.

    Args:
        model: Any module. It stays in its own mode, training or evaluation.
        loader: An iterable of batches. If it is too short, it is iterated again.
        warmup: Steps before the timed ones.
        steps: Timed steps.
        grad: Whether every step also runs backward, from the mean of all results. Weights do not
            change.
        device: Where to run, such as "cuda:1". By default the first GPU, else the CPU.

    Returns:
        The report, as `lightning_gpuprof.report` returns it.

    Raises:
        ConfigError: A count is below 1, the loader is empty, or `LIGHTNING_GPUPROF` is off.
    """
    _check_on()
    if min(warmup, steps) < 1:
        raise ConfigError(f"warmup={warmup}, steps={steps} would time nothing. Pass 1 or more.")
    parameter = next(model.parameters(), None)
    device_before = parameter.device if parameter is not None else None
    if isinstance(loader, list | tuple):
        # A Trainer takes a list for several loaders.
        loader = DataLoader(loader, batch_size=None)  # type: ignore[arg-type]
    all_steps = warmup + steps + 1 + TRACED_STEPS
    length = length_hint(loader, all_steps)  # the length of an iterable dataset is unknown
    if not length:
        raise ConfigError("The loader is empty. Pass a loader with at least one batch.")
    trainer = _trainer(device, warmup, all_steps, length)
    module = _ModelCalls(model, grad=grad)
    try:
        trainer.fit(module, loader)
    finally:
        if device_before is not None:
            model.to(device_before)
        module.restore_modes()
    return report(trainer.log_dir or trainer.default_root_dir)


def _check_on() -> None:
    if is_off():
        raise ConfigError(
            f"{VARIABLE}={os.environ[VARIABLE]} switches this package off, so that nothing can be "
            "measured. Unset the variable."
        )


def _trainer(
    device: torch.device | str | None, warmup: int, all_steps: int, length: int
) -> Trainer:
    accelerator, devices = _accelerator(device)
    return Trainer(
        accelerator=accelerator,
        devices=devices,
        max_epochs=math.ceil(all_steps / length),
        limit_train_batches=min(all_steps, length),
        callbacks=[
            GpuProfCallback(
                wait=all_steps - 1 - TRACED_STEPS,
                warmup=1,
                active=TRACED_STEPS,
                warmup_steps=warmup,
                profile_memory=True,
                report=False,
                console=False,
            )
        ],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _accelerator(device: torch.device | str | None) -> tuple[str, int | list[int]]:
    """Return the Trainer's arguments `accelerator` and `devices` for a device."""
    if device is None:
        return "auto", 1
    chosen = torch.device(device)
    if chosen.type == "cpu":
        return "cpu", 1
    return "gpu", [chosen.index or 0]


class _ModelCalls(LightningModule):
    """A LightningModule whose training step calls a model with the batch."""

    def __init__(self, model: torch.nn.Module, *, grad: bool) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.grad = grad
        self._modes = {module: module.training for module in model.modules()}
        parameters = inspect.signature(model.forward).parameters.values()
        kinds = [parameter.kind for parameter in parameters]
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        takes_any_number = inspect.Parameter.VAR_POSITIONAL in kinds
        self._argument_count = (
            None if takes_any_number else sum(kind in positional for kind in kinds)
        )

    @override
    def on_train_start(self) -> None:
        self.restore_modes()

    def restore_modes(self) -> None:
        """Put the modules back into their modes, which the Trainer has changed."""
        for module, training in self._modes.items():
            module.training = training

    @override
    def training_step(self, batch: Any, batch_idx: int) -> None:
        with torch.set_grad_enabled(self.grad):
            result = self._call_model(batch)
        if self.grad:
            means = [
                leaf.mean()
                for leaf in leaves_of(result)
                if isinstance(leaf, torch.Tensor) and leaf.requires_grad
            ]
            self.manual_backward(torch.stack(means).sum())
            self.model.zero_grad()

    def _call_model(self, batch: Any) -> Any:
        if isinstance(batch, Mapping):
            return self.model(**batch)
        if isinstance(batch, tuple | list):
            return self.model(*batch[: self._argument_count])
        return self.model(batch)

    @override
    def configure_optimizers(self) -> None:
        """Return no optimizer, so that the weights do not change."""
