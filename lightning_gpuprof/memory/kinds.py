"""The bytes and addresses of parameters, gradients and optimizer state."""

from collections.abc import Iterable
from typing import Any

import torch

from lightning_gpuprof.adapters.torch_tensors import local_shard

Optimizers = Iterable[torch.optim.Optimizer]


def kind_bytes(
    module: torch.nn.Module, optimizers: Optimizers, device: torch.device
) -> dict[str, int]:
    """Return the exact bytes of each kind on a device. Nothing is read from the device.

    The kinds are parameters with buffers, gradients as long as they exist, and optimizer state.
    Tensors that share their storage count once. Of sharded tensors (FSDP) this rank's shard counts.
    """
    counted: set[int] = set()
    bytes_by_kind = {}
    for kind, tensors in _tensors_by_kind(module, optimizers).items():
        bytes_by_kind[kind] = 0
        for local in map(local_shard, tensors):
            if local.device.type != device.type:
                continue
            storage = local.untyped_storage()
            if storage.nbytes() and storage.data_ptr() not in counted:
                counted.add(storage.data_ptr())
                bytes_by_kind[kind] += storage.nbytes()
    return bytes_by_kind


def kind_addresses(module: torch.nn.Module, optimizers: Optimizers) -> dict[str, list[int]]:
    """Return the addresses of parameters, gradients and optimizer state, by kind."""
    addresses_by_kind = {}
    for kind, tensors in _tensors_by_kind(module, optimizers).items():
        dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
        addresses = {tensor.untyped_storage().data_ptr() for tensor in dense}
        addresses_by_kind[kind] = sorted(addresses - {0})
    return addresses_by_kind


def _tensors_by_kind(module: torch.nn.Module, optimizers: Optimizers) -> dict[str, list[Any]]:
    parameters = list(module.parameters())
    state_values: list[Any] = []
    for optimizer in optimizers:
        for state in optimizer.state.values():
            state_values += state.values() if isinstance(state, dict) else [state]
    return {
        "parameters": [*parameters, *module.buffers()],
        "gradients": [parameter.grad for parameter in parameters if parameter.grad is not None],
        "optimizer_state": [value for value in state_values if isinstance(value, torch.Tensor)],
    }
