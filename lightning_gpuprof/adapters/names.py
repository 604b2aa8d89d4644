"""Looks up names that a version of torch or Lightning may not have."""

from collections.abc import Sequence
from functools import reduce
from typing import Any


def reach(owner: Any, path: str) -> Any:
    """Return an attribute of an attribute, and so on; None where a name on the way is missing.

    >>> reach(1j, "imag.real"), reach("", "_loader._iterator")
    (1.0, None)
    """
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


def missing(owner: Any, paths: Sequence[str]) -> list[str]:
    """Return the paths of attributes that an object lacks.

    >>> missing(1j, ["real.imag", "imag._loader"])
    ['imag._loader']
    """
    lacks = object()
    found = (
        reduce(lambda at, name: getattr(at, name, lacks), path.split("."), owner) for path in paths
    )
    return [path for path, at in zip(paths, found, strict=True) if at is lacks]
