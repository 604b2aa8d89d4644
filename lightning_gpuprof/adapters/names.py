"""Looks up names that a version of torch or Lightning may not have."""

from typing import Any


def reach(owner: Any, path: str) -> Any:
    """Follow a path of attributes; return None if a name on the path is missing.

    >>> reach(1j, "imag.real"), reach("", "_loader._iterator")
    (1.0, None)
    """
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner
