"""A user's model with batches of any size, and a training step of it."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch

from lightning_gpuprof.errors import ConfigError

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
CONTRACT = (
    "make() takes nothing and returns (model, batch_fn), where batch_fn(batch_size) returns a "
    "batch as the training DataLoader would."
)


@dataclass(frozen=True)
class ModelWithBatches:
    """A model, and a function that returns a batch of any size to train it on.

    The training step of a LightningModule is its `training_step`. Any other Module is called with
    the batch, which is unpacked if it is a tuple, a list or a dict.
    """

    model: torch.nn.Module
    batch: Callable[[int], Any]


def load_function(spec: str) -> Callable[[], Any]:
    """Import the function that a text names: `package.module:function` or `file.py:function`."""
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise ConfigError(
            f"--model {spec!r} does not name a function. Write package.module:make or "
            f"file.py:make, where {CONTRACT}"
        )
    module = _from_file(place) if place.endswith(".py") else _from_name(place)
    make: Callable[[], Any] | None = getattr(module, name, None)
    if not callable(make):
        raise ConfigError(f"{place} defines no function {name!r}. {CONTRACT}")
    return make


def call_make(make: Callable[[], Any]) -> ModelWithBatches:
    """Call `make()` and check its result."""
    result = make()
    is_pair = isinstance(result, tuple) and len(result) == 2
    if is_pair and isinstance(result[0], torch.nn.Module) and callable(result[1]):
        return ModelWithBatches(*result)
    returned = "another pair" if is_pair else type(result).__name__
    raise ConfigError(f"make() returned {returned}. {CONTRACT}")


def check_arguments(precision: str, batch_sizes: list[int]) -> None:
    """Refuse a precision or batch sizes that cannot be run."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} is unknown. Pass one of {PRECISIONS}.")
    if not batch_sizes or min(batch_sizes) < 1:
        raise ConfigError(f"batch_sizes={batch_sizes} cannot be run. Pass sizes of 1 or more.")


def train_step(
    model: torch.nn.Module,
    batch: Any,
    optimizer: torch.optim.Optimizer,
    precision: str,
    begin: Callable[[str], None],
) -> None:
    """Train a step in Lightning's order.

    `begin` receives the name of every phase after forward. As in Lightning, `zero_grad` comes
    between forward and backward, so that the gradients of a step still exist during the forward
    pass of the next step.
    """
    # Both mixed precisions halve the size of the same tensors, and on a CPU every version of torch
    # supports bfloat16.
    with torch.autocast("cpu", torch.bfloat16, enabled=precision.endswith("-mixed")):
        loss = _loss(model, batch)
    begin("zero_grad")
    optimizer.zero_grad()
    begin("backward")
    loss.backward()  # type: ignore[no-untyped-call]
    begin("optimizer_step")
    optimizer.step()


def make_optimizer(model: Any) -> torch.optim.Optimizer:
    """Return the model's own optimizer, or AdamW for a model without `configure_optimizers`.

    The optimizer uses its multi-tensor implementation, as torch chooses for parameters on CUDA.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ConfigError(
            "The model has no parameter that requires a gradient, so there is nothing to train."
        )
    configured = getattr(model, "configure_optimizers", lambda: torch.optim.AdamW(trained))
    optimizers = _optimizers(configured())
    if len(optimizers) != 1:
        raise ConfigError(
            f"configure_optimizers() returned {len(optimizers)} optimizers, but a plan needs "
            "exactly one. Pass --model with a function that returns a model with one optimizer."
        )
    optimizer = optimizers[0]
    for group in optimizer.param_groups:
        if group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True
    return optimizer


def _optimizers(configured: Any) -> list[torch.optim.Optimizer]:
    """Return the optimizers in a value that Lightning accepts from `configure_optimizers`."""
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
            "The model uses manual optimization (automatic_optimization=False), which needs a "
            "Trainer. Pass --model with a function that returns a Module whose forward returns the "
            "loss."
        )
    if hasattr(model, "training_step"):
        takes_index = len(signature(model.training_step).parameters) > 1
        output = model.training_step(batch, 0) if takes_index else model.training_step(batch)
    elif isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, list | tuple) else model(batch)
    loss = output.get("loss") if isinstance(output, dict) else output
    loss = loss if isinstance(loss, torch.Tensor) else getattr(output, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise ConfigError(
            f"A step of {type(model).__name__} returned {type(output).__name__} and not a loss "
            "with a single number, or a dict with such a 'loss'. Let training_step (or forward) "
            "return it."
        )
    return loss


def _from_name(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--model: {name!r} cannot be imported ({error}). Run from the folder that holds it, "
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
