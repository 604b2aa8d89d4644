"""The user's model with batches of any size, and one training step of it."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lightning_gpuprof.errors import ConfigError

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
CONTRACT = (
    "make() takes nothing and returns (model, batch_fn), where batch_fn(batch_size) returns a "
    "batch as the training DataLoader would."
)


@dataclass(frozen=True)
class Made:
    """A model and what returns a batch of so many samples to train it on.

    A LightningModule's `training_step` is run; another Module is called with the batch (unpacked,
    if that is a tuple or dict).
    """

    model: torch.nn.Module
    batch: Callable[[int], Any]


def load(spec: str) -> Callable[[], Any]:
    """Import the function that `package.module:function` or `file.py:function` names."""
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise ConfigError(
            f"--model {spec!r} names no function. Write package.module:make or file.py:make, "
            f"where {CONTRACT}"
        )
    module = _from_file(place) if place.endswith(".py") else _from_name(place)
    make: Callable[[], Any] | None = getattr(module, name, None)
    if not callable(make):
        raise ConfigError(f"{place} defines no function {name!r}. {CONTRACT}")
    return make


def call(make: Callable[[], Any]) -> Made:
    """Call `make()` and check its result."""
    made = make()
    pair = isinstance(made, tuple) and len(made) == 2
    if pair and isinstance(made[0], torch.nn.Module) and callable(made[1]):
        return Made(*made)
    returned = "another pair" if pair else type(made).__name__
    raise ConfigError(f"make() returned {returned}. {CONTRACT}")


def check(precision: str, batch_sizes: list[int]) -> None:
    """Refuse a precision or batch size that cannot be run."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} is not known. Pass one of {PRECISIONS}.")
    if not batch_sizes or min(batch_sizes) < 1:
        raise ConfigError(f"batch_sizes={batch_sizes}: give sizes of 1 or more.")


def train_step(
    made: Made,
    batch: Any,
    optimizer: torch.optim.Optimizer,
    precision: str,
    begin: Callable[[str], None],
) -> None:
    """Train one step in Lightning's order; `begin` is told each phase after forward.

    `zero_grad` comes between forward and backward, so the gradients of one step are still there in
    the next one's forward.
    """
    # On a CPU both mixed precisions halve the same tensors, and every version knows bfloat16.
    with torch.autocast("cpu", torch.bfloat16, enabled=precision.endswith("-mixed")):
        loss = _loss(made.model, batch)
    begin("zero_grad")
    optimizer.zero_grad()
    begin("backward")
    loss.backward()  # type: ignore[no-untyped-call]
    begin("optimizer_step")
    optimizer.step()


def make_optimizer(model: Any) -> torch.optim.Optimizer:
    """Return the model's own optimizer, or AdamW for a model without `configure_optimizers`.

    It takes the multi-tensor path, torch's choice for parameters on CUDA.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ConfigError("The model has no parameter that requires a gradient: nothing to train.")
    configured = getattr(model, "configure_optimizers", lambda: torch.optim.AdamW(trained))
    found = _optimizers(configured())
    if len(found) != 1:
        raise ConfigError(
            f"configure_optimizers() returned {len(found)} optimizers; a trial takes one. Let "
            "make() return a model with one."
        )
    for group in found[0].param_groups:
        if group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True
    return found[0]


def _optimizers(configured: Any) -> list[torch.optim.Optimizer]:
    """Return the optimizers among the forms that Lightning accepts."""
    if isinstance(configured, torch.optim.Optimizer):
        return [configured]
    if isinstance(configured, dict):
        return _optimizers(configured.get("optimizer"))
    if isinstance(configured, list | tuple):
        if len(configured) == 2 and all(isinstance(part, list | tuple) for part in configured):
            configured = configured[0]
        return [optimizer for part in configured for optimizer in _optimizers(part)]
    return []


def _loss(model: Any, batch: Any) -> torch.Tensor:
    if not getattr(model, "automatic_optimization", True):
        raise ConfigError(
            "The model optimizes by hand (automatic_optimization=False), which needs a Trainer. "
            "Let make() return a Module whose forward gives the loss."
        )
    if hasattr(model, "training_step"):
        output = model.training_step(batch, 0)
    elif isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, list | tuple) else model(batch)
    loss = output.get("loss") if isinstance(output, dict) else output
    loss = loss if isinstance(loss, torch.Tensor) else getattr(output, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise ConfigError(
            f"{type(model).__name__} gave {type(output).__name__} for a step, not a loss of one "
            f"number (or a dict with 'loss'). {CONTRACT}"
        )
    return loss


def _from_name(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--model: cannot import {name!r} ({error}). Run from the folder that holds it, "
            "install it, or pass file.py:make."
        ) from error


def _from_file(path: str) -> Any:
    if not os.path.isfile(path):
        raise ConfigError(f"--model: there is no file {path}.")
    folder, name = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
