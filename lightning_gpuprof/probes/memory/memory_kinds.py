"""Measures what the parameters, gradients and optimizer state of a model hold on a device."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def kind_bytes(
    module: torch.nn.Module,
    optimizers: Iterable[torch.optim.Optimizer],
    device: torch.device,
) -> dict[str, int]:
    """Return the bytes of each kind on a device: exact, and nothing is read from the device.

    Tensors that share storage count once; buffers count with the parameters; of sharded tensors
    (FSDP) this rank's share counts. Gradients count as long as they are there.

    >>> model = torch.nn.Linear(3, 1)
    >>> model(torch.ones(1, 3)).sum().backward()
    >>> kind_bytes(model, [torch.optim.SGD(model.parameters())], torch.device("cpu"))
    {'parameters': 16, 'gradients': 16, 'optimizer_state': 0}
    """
    parameters = list(module.parameters())
    seen: set[int] = set()
    found = {
        "parameters": [*parameters, *module.buffers()],
        "gradients": [one.grad for one in parameters if one.grad is not None],
        "optimizer_state": list(_state(optimizers)),
    }
    return {kind: _bytes(tensors, device, seen) for kind, tensors in found.items()}


def _state(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[torch.Tensor]:
    for optimizer in optimizers:
        for state in optimizer.state.values():
            yield from _tensors(state)


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    values = state.values() if isinstance(state, dict) else (state,)
    yield from (value for value in values if isinstance(value, torch.Tensor))


def _bytes(tensors: Iterable[torch.Tensor], device: torch.device, seen: set[int]) -> int:
    whole = 0
    for tensor in tensors:
        local = getattr(tensor, "_local_tensor", tensor)  # a DTensor's own shard
        if local.device.type != device.type:
            continue
        storage = local.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            whole += storage.nbytes()
    return whole
