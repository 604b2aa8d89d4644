"""State that a dataset shares with the module, of which a worker process would have a copy."""

from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset

MODEL = "the model"
_DEPTH = 3
"""Levels of datasets inside of datasets, such as `Subset`."""
_CONSTANT = (str, bytes, int, float, complex, bool, tuple, frozenset, type(None), type)


def shared_with(module: torch.nn.Module, dataset: object) -> str | None:
    """Return what of the module a dataset reads that training may change, or None.

    The result is `MODEL` for a dataset that holds the module or a part of it, or calls a method of
    it. For an iterable dataset that has another object in common with the module, such as a replay
    buffer, it is the name of the module's attribute; constants and callables, such as a tokenizer,
    do not count.
    """
    parts = {id(part) for part in module.modules()}
    state = {
        id(value): name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, _CONSTANT) and not callable(value)
    }
    named = None
    for held in _held(dataset, _DEPTH):
        if id(held) in parts:
            return MODEL
        if isinstance(dataset, IterableDataset) and named is None:
            named = state.get(id(held))
    return named


def _held(thing: object, depth: int) -> Iterator[Any]:
    """Yield what an object's attributes, methods and functions hold."""
    values = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    for value in values:
        yield value
        if isinstance(value, MethodType):
            yield value.__self__
        elif isinstance(value, FunctionType):
            yield from (cell.cell_contents for cell in value.__closure__ or ())
        elif isinstance(value, Dataset) and depth:
            yield from _held(value, depth - 1)
