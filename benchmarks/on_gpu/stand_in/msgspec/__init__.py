"""As much of msgspec as this package uses, in plain Python, for a machine without msgspec.

Only `benchmarks/gpu.py` puts it on the import path, and only where the real one is not installed
and cannot be had: slow, and no check of what users write. tests/benchmarks compares the two.
"""

from typing import Any

from . import json, structs
from ._convert import DecodeError, MsgspecError, ValidationError, convert, to_builtins
from ._struct import Raw, Struct, field

__all__ = [
    "DecodeError",
    "MsgspecError",
    "Raw",
    "Struct",
    "ValidationError",
    "convert",
    "field",
    "json",
    "structs",
    "to_builtins",
]
UNSET: Any = object()
