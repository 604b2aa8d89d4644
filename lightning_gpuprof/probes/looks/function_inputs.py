"""Tells whether a function of the program may compute with values of the batch, in Python too."""

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from lightning_gpuprof.probes.stacks.stack_lines import outwards, package_of

_VALUES = frozenset(
    "item tolist numpy __array__ __bool__ __int__ __float__ __index__ equal".split()
)
"""Torch's functions that give a tensor's values to Python."""
_PLAIN = (
    Module, Tensor, int, float, str, bool, type(None), torch.Size, torch.device, torch.dtype,
)  # fmt: skip
_MOST_PARTS = 16


def gives_values(name: str) -> bool:
    """Tell whether a function of torch's hands numbers of a tensor to Python."""
    return name in _VALUES


def given_plain(frame: FrameType) -> bool:
    """Tell whether the innermost function of the program was given nothing but what is plain.

    That is modules, numbers and names, and tensors, whose values it can only have by functions of
    torch's. In a list, an array or an object of the program's there may be the batch.

    To be called seldom: up to Python 3.12 the frame keeps what its variables hold now until it
    returns.
    """
    for each in outwards(frame):
        if package_of(each.f_code.co_filename) == "":
            code = each.f_code
            if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
                return False
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            return all(_is_plain(each.f_locals.get(name)) for name in names)
    return False


def called_by_own(frame: FrameType) -> bool:
    """Tell whether the program itself called a module of torch's, not another library."""
    packages = (package_of(each.f_code.co_filename) for each in outwards(frame))
    return next((one for one in packages if one not in ("torch", "lightning_gpuprof")), None) == ""


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return len(value) <= _MOST_PARTS and all(map(_is_plain, value))
    return isinstance(value, _PLAIN)
