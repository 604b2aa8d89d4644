"""Finds parameters, gradients and optimizer state in memory: their bytes and their addresses."""

from collections.abc import Iterable
from typing import Any

import torch

from lightning_gpuprof.adapters.torch_tensors import local_shard

Optimizers = Iterable[torch.optim.Optimizer]


def kind_bytes(
    module: torch.nn.Module, optimizers: Optimizers, device: torch.device
) -> dict[str, int]:
    """Return the bytes of each kind on a device: exact, and nothing is read from the device.

    Tensors that share storage count once; buffers count with the parameters; of sharded tensors
    (FSDP) this rank's share counts. Gradients count as long as they exist.
    """
    counted: set[int] = set()
    found = {}
    for kind, tensors in _tensors_by_kind(module, optimizers).items():
        found[kind] = 0
        for local in map(local_shard, tensors):
            storage = local.untyped_storage() if local.device.type == device.type else None
            if storage is not None and storage.nbytes() and storage.data_ptr() not in counted:
                counted.add(storage.data_ptr())
                found[kind] += storage.nbytes()
    return found


def kind_addresses(module: torch.nn.Module, optimizers: Optimizers) -> dict[str, list[int]]:
    """Return the addresses of parameters, gradients and optimizer state, by kind."""
    found = {}
    for kind, tensors in _tensors_by_kind(module, optimizers).items():
        dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
        found[kind] = sorted({tensor.untyped_storage().data_ptr() for tensor in dense} - {0})
    return found


def _tensors_by_kind(module: torch.nn.Module, optimizers: Optimizers) -> dict[str, list[Any]]:
    parameters = list(module.parameters())
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    values = [
        value for one in states for value in (one.values() if isinstance(one, dict) else [one])
    ]
    return {
        "parameters": [*parameters, *module.buffers()],
        "gradients": [one.grad for one in parameters if one.grad is not None],
        "optimizer_state": [value for value in values if isinstance(value, torch.Tensor)],
    }
