"""Names of the calls that make the host wait for a GPU, which both detectors use."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

READS = frozenset(
    "item tolist numpy cpu __repr__ __format__ __bool__ __int__ __float__ __complex__ __index__"
    " __array__ __contains__ is_nonzero".split()
)
"""Methods of a tensor that need its values on the host."""

FACTORIES = frozenset(
    "tensor as_tensor asarray from_numpy frombuffer zeros ones full empty arange range linspace"
    " logspace eye rand randn randint randperm normal scalar_tensor".split()
)
"""Functions that make a tensor, on the host unless `device=` names another device."""

FROM_DATA = frozenset({"tensor", "as_tensor", "asarray", "new_tensor"})
"""Factories that copy values from the host. With `device=` that is a copy from pageable memory."""

NAMES = {f"__{name}__": name for name in "format bool int float complex index".split()} | {
    "__repr__": "print",
    "__getitem__": "boolean mask",
    "__setitem__": "boolean mask",
    "__array__": "numpy",
    "__contains__": "in",
}
"""The names under which the result shows Python's special methods."""

SYNCHRONIZE = ("synchronize", "stream.synchronize", "event.synchronize")
"""Names of the explicit waits: for a whole device, for a stream, and for an event."""

_READS_VALUES = frozenset(
    "_local_scalar_dense nonzero nonzero_numpy masked_select unique_dim _unique _unique2"
    " unique_consecutive unique_dim_consecutive bincount equal is_nonzero _linalg_check_errors"
    " _coalesce nms".split()
)


def synchronize_calls() -> Iterable[tuple[Any, str]]:
    """Return the owners of torch's functions `synchronize`, with the names the result shows."""
    device, stream, event = SYNCHRONIZE
    for module in ("cuda", "cpu", "xpu", "mps", "accelerator"):
        yield getattr(torch, module, None), device
    yield torch.cuda.Stream, stream
    yield torch.cuda.Event, event


def needs_values(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an ATen operator needs the values of its tensors on the host.

    It does if the values decide the shape of its result, or if it returns a Python number.
    """
    name, _, overload = operator_name(operator).partition(".")
    if name in _READS_VALUES:
        return True
    if name == "index":
        return _has_mask(args[1])
    if name in ("index_put", "index_put_", "_index_put_impl_"):
        # To write a single value everywhere is a masked_fill, which needs nothing from the host.
        return _has_mask(args[1]) and args[2].numel() != 1
    if name == "repeat_interleave":
        return overload == "Tensor" and kwargs.get("output_size") is None
    return False


def operator_name(operator: Any) -> str:
    """Return an operator's name without its namespace."""
    return str(operator.name()).rpartition("::")[2]


def _has_mask(indices: Any) -> bool:
    return any(
        isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices
    )
