"""Finds the tensors in nested arguments and results."""

from collections.abc import Iterator, Mapping
from typing import Any


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and mappings.

    >>> list(tensors_in({"a": [1, (2,)], "b": None}))
    [1, 2, None]
    """
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        yield value
        return
    for part in value:
        yield from tensors_in(part)
