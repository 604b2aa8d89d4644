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

from lightning_gpuprof.errors import ConfigError

CONTRACT = (
    "make() takes nothing and returns (model, batch_fn), where batch_fn(batch_size) returns a "
    "batch as the training DataLoader would."
)


@dataclass(frozen=True)
class Made:
    """A model and the batches to train it on.

    Attributes:
        model: A LightningModule, whose `training_step` is run, or another Module, which is
            called with the batch (unpacked, if that is a tuple or dict).
        batch: Returns a batch of so many samples.
    """

    model: torch.nn.Module
    batch: Callable[[int], Any]


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
        raise ConfigError(f"{place} defines no function {name!r}. {CONTRACT}")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise ConfigError(f"{name}() needs arguments: {error}. {CONTRACT}") from None
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


def call(make: Callable[[], Any]) -> Made:
    """Call `make()` and check its result.

    Raises:
        ConfigError: The result does not follow the contract.
    """
    made = make()
    pair = isinstance(made, tuple) and len(made) == 2
    if pair and isinstance(made[0], torch.nn.Module) and callable(made[1]):
        return Made(*made)
    returned = "another pair" if pair else type(made).__name__
    raise ConfigError(f"make() returned {returned}. {CONTRACT}")


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
