"""Private parts of torch: dispatch modes, nested containers, storages and shards of tensors.

The names are in torch 2.2 to 2.14. Where one is missing nothing is found, or a tensor counts as
its own storage.
"""

from contextlib import suppress

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["TorchDispatchMode", "storage_key", "tree_leaves"]


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
