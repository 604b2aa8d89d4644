"""Private parts of torch: open modes, and the storages, versions and shards of tensors.

The names are in torch 2.2 to 2.14. Where one is missing nothing is found, or a tensor counts as
its own storage.
"""

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
import torch.overrides
import torch.utils._python_dispatch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["TorchDispatchMode", "open_dispatch_modes", "open_function_modes", "storage_key"]


WATCHING_MODES = ("torch.utils.flop_counter", "torch.utils._debug_mode", "torch.testing.")
"""Modules of torch's modes that watch; others (a default device) are there for their effect."""


def open_dispatch_modes() -> list[Any]:
    """Return the modes that are told of each operator, the outermost first."""
    read = getattr(torch.utils._python_dispatch, "_get_current_dispatch_mode_stack", list)
    return list(read())


def open_function_modes() -> list[Any]:
    """Return the modes that are told of each of torch's functions, the outermost first."""
    read = getattr(torch.overrides, "_get_current_function_mode_stack", list)
    return list(read())


def storage_key(tensor: Tensor) -> int:
    """Return a number that tensors in the same memory share."""
    with suppress(NotImplementedError, RuntimeError):  # sparse and wrapper tensors have none
        return int(tensor.untyped_storage()._cdata)
    return id(tensor)


def stored_values(tensor: Tensor) -> int:
    """Return how many values a sparse tensor stores."""
    return int(tensor._nnz())


def local_shard(tensor: Tensor) -> Tensor:
    """Return the part of a DTensor that this rank has; any other tensor as it is."""
    local: Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def no_overrides() -> AbstractContextManager[None]:
    """Return a context in which tensors' own `__torch_function__` is not called."""
    disabled = getattr(torch._C, "DisableTorchFunction", None)
    return nullcontext() if disabled is None else disabled()


def version_of(tensor: Tensor) -> int | None:
    """Return how often a tensor was written to in place; None for one made in inference mode."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return None
