"""Dispatch modes, nested containers, and the storages and shards of tensors.

The private names are in torch 2.2 to 2.14. A tensor without a storage counts as its own storage,
and a tensor without `_local_tensor` as its own shard.
"""

from contextlib import suppress

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["TorchDispatchMode", "storage_key", "tree_leaves"]


def storage_key(tensor: Tensor) -> int:
    """Return a number that is the same for all tensors in the same storage."""
    with suppress(NotImplementedError, RuntimeError):  # sparse and wrapper tensors have none
        return int(tensor.untyped_storage()._cdata)
    return id(tensor)


def stored_values(tensor: Tensor) -> int:
    """Return the number of values that a sparse tensor stores."""
    return int(tensor._nnz())


def local_shard(tensor: Tensor) -> Tensor:
    """Return this rank's part of a DTensor. Any other tensor is returned as it is."""
    local: Tensor = getattr(tensor, "_local_tensor", tensor)
    return local
