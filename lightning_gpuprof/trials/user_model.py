"""Finds and calls the user's `make()`: a model and batches of any size."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lightning_gpuprof.adapters.pytree import tree_map
from lightning_gpuprof.errors import ConfigError

CONTRACT = (
    "make() takes nothing and returns (model, batch_fn), where batch_fn(batch_size) returns a "
    "batch as the training DataLoader would; or (model, batch), whose tensors' first dimension "
    "is resized; or a LightningModule that sets example_input_array."
)


@dataclass(frozen=True)
class Made:
    """A model and the batches to train it on.

    Attributes:
        model: A LightningModule, whose `training_step` is run, or another Module, which is
            called with the batch (unpacked, if that is a tuple or dict).
        batch: Returns a batch of so many samples.
        forward_only: There is no batch for `training_step`: `forward` runs instead and the sum
            of its output stands for the loss.
    """

    model: torch.nn.Module
    batch: Callable[[int], Any]
    forward_only: bool = False


def load(spec: str) -> Callable[[], Any]:
    """Import the function that `package.module:function` or `file.py:function` names.

    Raises:
        ConfigError: There is no such module or function.
    """
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise ConfigError(
            f"--model {spec!r} names no function. Write package.module:make or file.py:make, "
            f"where {CONTRACT}"
        )
    module = _from_file(place) if place.endswith(".py") else _from_name(place)
    make: Callable[[], Any] | None = getattr(module, name, None)
    if not callable(make):
        own = module.__name__.partition(".")[0]  # leaves out functions that it imports
        found = sorted(
            key
            for key, value in vars(module).items()
            if callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] == own
        )[:8]
        there = f"it has {', '.join(found)}" if found else "nor any other"
        raise ConfigError(f"{place} defines no function {name!r}; {there}.")
    needed = [
        parameter.name
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed:
        raise ConfigError(f"{name}({', '.join(needed)}) needs arguments. {CONTRACT}")
    return make


def spec_of(make: Callable[[], Any]) -> str:
    """Return `file.py:function`, by which another process finds a function.

    Raises:
        ConfigError: It is not at the top of a file.
    """
    name = getattr(make, "__qualname__", "")
    try:
        file = inspect.getsourcefile(make)
    except TypeError:
        file = None
    if file is None or not name.isidentifier():
        raise ConfigError(
            f"{name or repr(make)} cannot be found by another process. Pass a function defined at "
            'the top of a file, or "package.module:function".'
        )
    return f"{file}:{name}"


def call(make: Callable[[], Any], *, values: bool = False) -> Made:
    """Call `make()` and check what it returns.

    Args:
        make: The user's function.
        values: Whether a single batch is resized by repeating its samples, for real steps;
            otherwise the tensors only get the shape.

    Raises:
        ConfigError: The result does not follow the contract.
    """
    made = make()
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        model, batch = made
        return Made(model, batch if callable(batch) else _resizer(batch, values))
    example = getattr(made, "example_input_array", None)
    if isinstance(made, torch.nn.Module) and example is not None:
        return Made(made, _resizer(example, values), forward_only=True)
    model_alone = isinstance(made, torch.nn.Module)
    returned = "a model without example_input_array" if model_alone else type(made).__name__
    raise ConfigError(f"make() returned {returned}. {CONTRACT}")


def _resizer(example: Any, values: bool) -> Callable[[int], Any]:
    def resized(batch_size: int) -> Any:
        def resize(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
                return leaf
            if values:
                return leaf[torch.arange(batch_size) % leaf.shape[0]]
            return torch.empty((batch_size, *leaf.shape[1:]), dtype=leaf.dtype)

        return tree_map(resize, example)

    return resized


def _from_name(name: str) -> Any:
    if os.getcwd() not in sys.path:
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
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
