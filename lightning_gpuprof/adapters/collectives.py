"""Where torch lets a rank wait for other ranks, and a rank's place in the mesh of its strategy.

Names of torch 2.2 to 2.13; waits at a name that is missing are not timed:
    torch.distributed.Work.wait (public): the program's own collectives, those of Lightning, and
        those of `fully_shard` on a CPU
    torch.distributed._functional_collectives.wait_tensor (private): tensor parallelism
    FSDPParamGroup.wait_for_unshard, FSDPParamGroup.finalize_backward (private): `fully_shard` on a
        GPU, whose streams wait and not the host
"""

import sys
from typing import Any

import torch

from lightning_gpuprof.adapters.compiled_modules import is_compiled
from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.adapters.names import reach

WORK = ("torch.distributed", "Work", "wait")
FUNCTIONAL = ("torch.distributed._functional_collectives", "", "wait_tensor")
SHARDS = (
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param_group",
        "FSDPParamGroup",
        "wait_for_unshard",
    ),
    (
        "torch.distributed.fsdp._fully_shard._fsdp_param_group",
        "FSDPParamGroup",
        "finalize_backward",
    ),
)
"""Module, class in it (or empty) and name of functions that return once a collective has ended."""
_AXIS = "_parallel"


def waiting_functions(module: torch.nn.Module, *, on_device: bool) -> list[tuple[Any, str]]:
    """Return the owner and the name of every function in which a rank waits for others.

    Only modules that are imported by now are searched. A compiled model has its collectives in the
    graph, and torch.compile would trace a replaced `wait_tensor`, so that one is left out.

    Args:
        module: The model.
        on_device: Whether the model is on a device whose streams wait.
    """
    names = [WORK]
    if not any(map(is_compiled, module.modules())):
        names.append(FUNCTIONAL)
    names += SHARDS if on_device else ()
    owners = ((_imported(at, of_class), name) for at, of_class, name in names)
    return [(owner, name) for owner, name in owners if callable(getattr(owner, name, None))]


def mesh_place(trainer: Trainer) -> dict[str, int]:
    """Return the rank's coordinate on every axis of the strategy's device mesh; empty without one.

    The axes of `ModelParallelStrategy` are `data` and `tensor`.
    """
    mesh: Any = getattr(trainer.strategy, "device_mesh", None)
    names = getattr(mesh, "mesh_dim_names", None) or ()
    return {name.removesuffix(_AXIS): int(mesh.get_local_rank(name)) for name in names}


def _imported(at: str, of_class: str) -> Any:
    module = sys.modules.get(at)
    return reach(module, of_class) if of_class else module
