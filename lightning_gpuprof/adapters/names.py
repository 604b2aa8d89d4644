"""Looks up names that a version of torch or Lightning may not have."""

from typing import Any


def reach(owner: Any, path: str) -> Any:
    """Return an attribute of an attribute, and so on; None where a name on the way is missing.

    >>> reach(1j, "imag.real"), reach("", "_loader._iterator")
    (1.0, None)
    """
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner
