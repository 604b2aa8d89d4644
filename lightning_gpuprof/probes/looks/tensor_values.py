"""What of a tensor may be read while a program trains, and what tells its values apart."""

from typing import Any

import torch
from torch import Tensor

_TORCHS_OWN = (Tensor, torch.nn.Parameter)


def is_plain(value: Any) -> bool:
    """Tell whether something is a tensor with a shape and numbers one after the other."""
    if not isinstance(value, Tensor) or torch._C._functorch.is_functorch_wrapped_tensor(value):
        return False
    return value.layout is torch.strided and not value.is_nested


def readable(tensor: Tensor) -> bool:
    """Tell whether values can be read: where no device would be waited for, and nobody be told.

    Others than torch that would be: a dispatch mode, a tensor's class.
    """
    told = torch._C._len_torch_dispatch_stack() > 0
    return not told and tensor.device.type == "cpu" and type(tensor) in _TORCHS_OWN


def version(tensor: Tensor) -> int:
    """Return what counts changes in place; those of an inference tensor are not counted."""
    return 0 if tensor.is_inference() else tensor._version


@torch.no_grad()
def digest_of(results: list[Tensor]) -> tuple[Any, ...] | None:
    """Return what tells values apart; None where they are not to be read."""
    if not all(map(readable, results)):
        return None
    return tuple((*one.shape, _sum(one)) for one in results)


def _sum(tensor: Tensor) -> complex:
    total = tensor.sum(dtype=None if tensor.is_complex() else torch.float64)
    return complex(total.item())
