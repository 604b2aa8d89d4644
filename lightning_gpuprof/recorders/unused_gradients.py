"""Gradients that no optimizer steps on."""

from collections.abc import Iterable, Mapping
from typing import Any

from lightning_gpuprof.adapters.lightning import LightningModule
from lightning_gpuprof.records.facts import UnusedGradients


def unused_gradients(
    module: LightningModule, groups: Iterable[Mapping[str, Any]]
) -> UnusedGradients | None:
    """Return the parameters that have a gradient and are in no group of an optimizer, if any."""
    used = {id(parameter) for group in groups for parameter in group["params"]}
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    unused = {
        name: one for name, one in trained.items() if one.grad is not None and id(one) not in used
    }
    if not unused:
        return None
    return UnusedGradients(
        tensors=len(unused),
        parameters=sum(one.numel() for one in unused.values()),
        all_parameters=sum(one.numel() for one in module.parameters()),
        modules=tuple(dict.fromkeys(_owner(name, unused, trained) for name in unused)),
    )


def _owner(name: str, unused: Iterable[str], trained: Iterable[str]) -> str:
    """Return the outermost module of a parameter that is unused as a whole, or its own name.

    >>> _owner("a.b.weight", {"a.b.weight"}, {"a.b.weight", "a.c.weight"})
    'a.b'
    """
    parts = name.split(".")
    for depth in range(1, len(parts)):
        prefix = ".".join(parts[:depth])
        if all(one in unused for one in trained if one.startswith(f"{prefix}.")):
            return prefix
    return name
