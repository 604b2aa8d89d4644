"""torch's fake tensors, which have shapes and no data, and the identity of storages.

Private names of torch 2.1 to 2.13: `torch._subclasses.fake_tensor`, `UntypedStorage._cdata`,
`Tensor._indices` and `_values`, which need no coalesced tensor.
"""

import copy
from contextlib import AbstractContextManager
from typing import Any

import torch


def fake_tensors() -> AbstractContextManager[Any]:
    """Return the mode under which new tensors have shapes and no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    # Tensors that a model brings in from outside (numpy, a file) become fakes on first use.
    mode: AbstractContextManager[Any] = FakeTensorMode(allow_non_fake_inputs=True)
    return mode


def faked(model: torch.nn.Module, fakes: Any) -> torch.nn.Module:
    """Return the model with fake parameters and buffers; the given model keeps its real tensors."""
    from torch._subclasses.fake_tensor import FakeTensor

    tensors = [*model.parameters(), *model.buffers()]
    if all(isinstance(tensor, FakeTensor) for tensor in tensors):
        return model
    # `deepcopy` takes the tensors from this dict, so no data is copied.
    return copy.deepcopy(model, {id(tensor): _fake(tensor, fakes) for tensor in tensors})


def value_errors() -> tuple[type[Exception], ...]:
    """Return the errors by which a fake tensor refuses to give its value."""
    from torch._subclasses import fake_tensor

    return fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException


def storage_id(storage: torch.UntypedStorage) -> int:
    """Return a number that no other living storage has; also of a fake one."""
    return int(storage._cdata)


def storages_of(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """Return a tensor's storages: two of a sparse one, none of other layouts."""
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
