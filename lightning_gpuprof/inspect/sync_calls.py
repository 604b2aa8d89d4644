"""Calls that make the host wait for a GPU: the tables of both detectors, and advice for each."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from lightning_gpuprof.records.schema import SyncSite

READS = frozenset(
    "item tolist numpy cpu __repr__ __format__ __bool__ __int__ __float__ __complex__ __index__"
    " __array__ __contains__ is_nonzero".split()
)
"""Methods of a tensor that need its values on the host."""

FACTORIES = frozenset(
    "tensor as_tensor asarray from_numpy frombuffer zeros ones full empty arange range linspace"
    " logspace eye rand randn randint randperm normal scalar_tensor".split()
)
"""Functions that make a tensor on the host unless `device=` says otherwise."""

FROM_DATA = frozenset({"tensor", "as_tensor", "asarray", "new_tensor"})
"""Factories that copy values of the host: with `device=`, a copy from pageable memory."""

NAMES = {
    "__repr__": "print",
    "__format__": "format",
    "__getitem__": "boolean mask",
    "__setitem__": "boolean mask",
    "__bool__": "bool",
    "__int__": "int",
    "__float__": "float",
    "__complex__": "complex",
    "__index__": "index",
    "__array__": "numpy",
    "__contains__": "in",
}
"""Python's name for a method, as the rows show it."""

SYNCHRONIZE = "synchronize"

_VALUE_DEPENDENT = frozenset(
    "_local_scalar_dense nonzero nonzero_numpy masked_select unique_dim _unique _unique2"
    " unique_consecutive unique_dim_consecutive bincount equal is_nonzero _linalg_check_errors"
    " _coalesce nms".split()
)


def synchronize_calls() -> Iterable[tuple[Any, str]]:
    """Return where torch keeps its functions that wait for a whole device or stream."""
    for module in ("cuda", "cpu", "xpu", "mps", "accelerator"):
        yield getattr(torch, module, None), "synchronize"
    yield torch.cuda.Stream, "synchronize"
    yield torch.cuda.Event, "synchronize"


def shows_values(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether data decide the shape or the host value that an ATen operator returns.

    >>> import torch
    >>> mask = torch.tensor([True, False])
    >>> shows_values(torch.ops.aten.nonzero.default, (mask,), {})
    True
    >>> shows_values(torch.ops.aten.index.Tensor, (mask, [torch.tensor([0])]), {})
    False
    """
    name, _, overload = operator_name(operator).partition(".")
    if name in _VALUE_DEPENDENT:
        return True
    if name == "index":
        return _has_mask(args[1])
    if name in ("index_put", "index_put_", "_index_put_impl_"):
        # One value for all places is a masked_fill, which the device does by itself.
        return _has_mask(args[1]) and args[2].numel() != 1
    if name == "repeat_interleave":
        return overload == "Tensor" and kwargs.get("output_size") is None
    return False


def operator_name(operator: Any) -> str:
    """Return an operator's name without its namespace.

    >>> operator_name(torch.ops.aten.index.Tensor), operator_name(torch.ops.aten.relu.default)
    ('index.Tensor', 'relu')
    """
    return str(operator.name()).rpartition("::")[2]


def _has_mask(indices: Any) -> bool:
    return any(
        isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices
    )


PAGEABLE_COPY = "pageable copy"
"""The operation's name in the rows of an inspection."""
_BY_OWNER = {
    "lightning": "use DeferredLoss and DeferredProgressBar for values of each step, and leave out "
    "prog_bar=True and on_step=True",
    "dataloader": "return host tensors from the dataset and set pin_memory=True: the Trainer "
    "moves the batch without waiting",
    "metric": "compare and branch on the device (torch.where, clamp) in update(), or set "
    "validate_args=False",
}
_BY_OPERATION = {
    PAGEABLE_COPY: "make the tensor on the device once, in __init__ (register_buffer), or of one "
    "number by torch.full(..., device=...), or use .to(device, non_blocking=True) on pinned memory",
    "boolean mask": "keep the shape: torch.where(mask, x, 0), or masked_fill",
    "masked_select": "keep the shape: torch.where(mask, x, 0), or masked_fill",
    "nonzero": "keep the mask as it is and weight by it: (x * mask).sum() / mask.sum()",
    "where": "keep the mask as it is: torch.where(mask, x, y) with all three arguments",
    "unique": "count into a fixed number of bins (torch.zeros(n).scatter_add_) or do it on the "
    "host while loading",
    "repeat_interleave": "pass output_size=...",
    "synchronize": "remove it; to time the device use torch.cuda.Event(enable_timing=True)",
    "print": "print once in many steps, or hand the value to DeferredScalars",
    "bool": "decide on the device (torch.where), or once in many steps",
    "equal": "compare on the device: (a == b).all() stays a tensor",
}
_NUMBER = (
    "of a number self.log makes a tensor on the device by a copy that waits: log a tensor that is "
    "there, torch.full((), number, device=self.device), or give the number to "
    "self.logger.log_metrics"
)
_SCALER = (
    "the gradient scaler asks in each step whether a gradient overflowed: precision='bf16-mixed' "
    "needs no scaler"
)
_SCALER_FILE = "precision/amp.py"
"""Where Lightning calls it; in manual optimization it is the program's own line that does."""
_STEP = ".step("
_STEPS = (
    "the optimizer or scheduler reads a value: ReduceLROnPlateau in each step only with "
    "interval='step', LBFGS and ASGD by themselves; in manual optimization with "
    "precision='16-mixed' it is the gradient scaler, without which 'bf16-mixed' does"
)
_READ = "keep the tensor: total += loss.detach(), or DeferredLoss / DeferredScalars; read it later"


def advice(site: SyncSite) -> str:
    """Return the replacement for a line that makes the host wait.

    >>> site = SyncSite(file="t.py", line=1, function="f", source="x.item()", owner="user",
    ...                 operation="item", count=1, steps_watched=1)
    >>> advice(site)
    'keep the tensor: total += loss.detach(), or DeferredLoss / DeferredScalars; read it later'
    """
    operations = site.operation.split(", ")
    if site.owner == "lightning":
        return _lightnings(site, operations)
    if site.owner in _BY_OWNER:
        return _BY_OWNER[site.owner]
    return _BY_OPERATION.get(operations[0], _READ)


def _lightnings(site: SyncSite, operations: list[str]) -> str:
    if site.file.replace("\\", "/").endswith(_SCALER_FILE):
        return _SCALER
    if _STEP in site.source:
        return _STEPS
    copied = PAGEABLE_COPY in operations
    read = not copied or len(operations) > 1
    return "; ".join([_NUMBER] * copied + [_BY_OWNER["lightning"]] * read)
