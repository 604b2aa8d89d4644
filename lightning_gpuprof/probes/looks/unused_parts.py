"""Tells which parts of a model hold what is not trained, and what those are given."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils.hooks import RemovableHandle
from typing_extensions import override

from lightning_gpuprof.probes.latency.latency import tensors_in


def parts_without(
    model: Module, trained: Iterable[Parameter], unused: Mapping[Parameter, float]
) -> tuple[str, ...]:
    """Return the outermost modules that hold unused parameters, and none that is trained.

    A parameter whose own module holds trained ones, too, stands for itself. The costliest come
    first.

    Args:
        model: What the names are of.
        trained: Its parameters that are trained.
        unused: The others that matter, each with its cost.

    >>> model = torch.nn.ModuleDict({"body": torch.nn.Linear(1, 1), "head": torch.nn.Linear(1, 1)})
    >>> unused = {model["head"].bias: 1, model["body"].weight: 2, model["body"].bias: 3}
    >>> parts_without(model, [model["head"].weight], unused)
    ('body', 'head.bias')
    """
    kept = set(trained)
    left = dict(unused)
    found: dict[str, float] = {}
    parts = [(name, set(part.parameters())) for name, part in model.named_modules() if name]
    for name, weights in (*parts, *((name, {one}) for name, one in model.named_parameters())):
        ours = weights & left.keys()
        if ours and not weights & kept:
            found[name] = sum(left.pop(one) for one in ours)
    return tuple(sorted(found, key=lambda name: -found[name]))


def owners(model: Module, weights: Iterable[Parameter]) -> list[Module]:
    """Return the modules inside a model that hold some of these parameters themselves.

    Those of TorchScript, which take no such hooks as `FirstInput` has, are left out.
    """
    wanted = set(weights)
    script = torch.jit.ScriptModule
    every = (one for one in model.modules() if one is not model and not isinstance(one, script))
    return [part for part in every if wanted.intersection(part.parameters(recurse=False))]


class FirstInput:
    """Tells whether the first of some modules to be called is given what has a gradient.

    The gradient of that input is needed whether or not the modules' own weights are trained. What
    later ones are given has one by way of the first, which says nothing.

    Args:
        modules: Those to be told of.
    """

    def __init__(self, modules: Collection[Module]) -> None:
        self.through: bool | None = None
        """In any of its calls; None before the first one."""
        self._module: Module | None = None
        self._handles: list[RemovableHandle] = [
            one.register_forward_pre_hook(self, with_kwargs=True) for one in modules
        ]

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """In a module's copy, on a disk too, do nothing that needs this package."""
        return getattr, (nullcontext(), "__exit__")

    def __call__(self, module: Module, args: Any, kwargs: Any) -> None:
        """Note what a module is given."""
        if self._module is None and torch.is_grad_enabled():
            self._module = module
        if module is self._module and torch.is_grad_enabled():
            given = (one for one in tensors_in((args, kwargs)) if isinstance(one, Tensor))
            self.through = bool(self.through) or any(one.requires_grad for one in given)

    def stop(self) -> None:
        """Be told no more; it may be called twice."""
        while self._handles:
            self._handles.pop().remove()
