"""Finds state that a dataset shares with the module: worker processes would have copies of it."""

from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset

MODEL = "the model"
_DEPTH = 3
"""How many levels of datasets inside datasets, such as `Subset`, are searched."""
_CONSTANT = (str, bytes, int, float, complex, bool, tuple, frozenset, type(None), type)


def shared_with(module: torch.nn.Module, dataset: object) -> str | None:
    """Return what a dataset reads of the module that training may change, or None.

    The result is `MODEL` if the dataset holds the module, a submodule, or a method of these. If an
    iterable dataset and the module share another object, such as a replay buffer, the result is
    the name of the module's attribute. Constants and callables, such as a tokenizer, do not count.
    """
    submodules = {id(submodule) for submodule in module.modules()}
    state = {
        id(value): name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, _CONSTANT) and not callable(value)
    }
    shared_name = None
    for value in _values_in(dataset, _DEPTH):
        if id(value) in submodules:
            return MODEL
        if isinstance(dataset, IterableDataset) and shared_name is None:
            shared_name = state.get(id(value))
    return shared_name


def _values_in(owner: object, depth: int) -> Iterator[Any]:
    """Yield the values of an object's attributes, and what their methods and closures refer to."""
    values = list(vars(owner).values()) if hasattr(owner, "__dict__") else []
    for value in values:
        yield value
        if isinstance(value, MethodType):
            yield value.__self__
        elif isinstance(value, FunctionType):
            yield from (cell.cell_contents for cell in value.__closure__ or ())
        elif isinstance(value, Dataset) and depth:
            yield from _values_in(value, depth - 1)
