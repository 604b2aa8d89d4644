"""Fake tensors of torch, which have shapes but no data, and the identity of storages.

Private names in torch 2.1 to 2.13: `torch._subclasses.fake_tensor`, `UntypedStorage._cdata`,
`torch.utils._python_dispatch._disable_current_modes`, and `Tensor._indices` and `_values`, which
also work for a sparse tensor that is not coalesced.
"""

import copy
from contextlib import AbstractContextManager
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.torch_tensors import TorchDispatchMode


def fake_tensors() -> AbstractContextManager[Any]:
    """Return the mode in which new tensors have shapes but no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    # Tensors that a model brings in from outside (numpy, a file) become fakes on first use.
    mode: AbstractContextManager[Any] = FakeTensorMode(allow_non_fake_inputs=True)
    return mode


def faked(model: torch.nn.Module, fakes: Any) -> torch.nn.Module:
    """Return a copy of a model with fake parameters and buffers."""
    from torch._subclasses.fake_tensor import FakeTensor

    tensors = [*model.parameters(), *model.buffers()]
    if all(isinstance(tensor, FakeTensor) for tensor in tensors):
        return model
    # `deepcopy` takes the tensors from this dict, so that no data is copied.
    return copy.deepcopy(model, {id(tensor): _fake(tensor, fakes) for tensor in tensors})


def real_tensors() -> AbstractContextManager[Any]:
    """Return a context in which tensors have data, inside one in which they have none."""
    from torch.utils._python_dispatch import _disable_current_modes

    modes: AbstractContextManager[Any] = _disable_current_modes()
    return modes


def value_errors() -> tuple[type[Exception], ...]:
    """Return the errors that a fake tensor raises if its value is needed."""
    from torch._subclasses import fake_tensor

    return fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException


class FloatReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers where a number of a float tensor without data is read, as for a log: with 1.0.

    Whole numbers and truth values are not answered, since shapes and branches depend on them.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        """How many numbers were read."""

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except value_errors():
            is_read = func is torch.ops.aten._local_scalar_dense.default
            if not is_read or not args[0].is_floating_point():
                raise
            self.count += 1
            return 1.0


def storage_id(storage: torch.UntypedStorage) -> int:
    """Return a number that no other existing storage has, real or fake."""
    return int(storage._cdata)


def storages_of(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """Return the storages of a tensor: two of a sparse COO tensor, none of other sparse layouts."""
    if tensor.layout is torch.strided:
        return [tensor.untyped_storage()]
    parts = [tensor._indices(), tensor._values()] if tensor.layout is torch.sparse_coo else []
    return [part.untyped_storage() for part in parts]


def _fake(tensor: torch.Tensor, fakes: Any) -> torch.Tensor:
    fake: torch.Tensor = fakes.from_tensor(tensor.detach())
    if isinstance(tensor, torch.nn.Parameter):
        with fakes:
            return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake
