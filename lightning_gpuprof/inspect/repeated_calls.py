"""Finds modules that are called again with the same input, and compute the same again."""

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from lightning_gpuprof.adapters.torch_tensors import version_of

_PLAIN = (int, float, bool, str, bytes, type(None))


class RepeatedCalls:
    """Notes a module's calls within a step by its input; a repeated one is reported.

    The same input is the same tensor object, not written to since; the module's parameters must be
    unchanged too. Modules that draw random numbers (dropout in training) may give another result
    and do not count, nor do those without parameters, which are cheap. Of modules inside a repeated
    one nothing is reported.

    Args:
        report: Told of a repeated call: the module's name.
        counts: Tells whether calls count now: not within the backward pass.
    """

    def __init__(self, report: Callable[[str], None], counts: Callable[[], bool]) -> None:
        self._report = report
        self._counts = counts
        self._calls: dict[Any, list[weakref.ref[Tensor]]] = {}
        self._inside: Module | None = None
        self._handles: list[Any] = []

    def start(self, root: Module) -> None:
        """Begin to note the calls of a module's parts, and of its own as a whole."""
        for name, module in root.named_modules():
            parameters = tuple(module.parameters())
            if parameters:
                enter = partial(self._enter, name=name, parameters=parameters)
                self._handles += [
                    module.register_forward_pre_hook(enter, with_kwargs=True),
                    module.register_forward_hook(self._leave, always_call=True),
                ]

    def begin_step(self) -> None:
        """Forget the last step's calls."""
        self._calls.clear()
        self._inside = None

    def stop(self) -> None:
        """Note no more."""
        while self._handles:
            self._handles.pop().remove()

    def _enter(
        self,
        module: Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        name: str,
        parameters: tuple[Tensor, ...],
    ) -> None:
        if self._inside is not None or not self._counts():
            return
        given = [*args, *kwargs.values()]
        tensors = [one for one in given if isinstance(one, Tensor)]
        versions = [version_of(one) for one in (*tensors, *parameters)]
        if not tensors or None in versions or not _comparable(given):
            return
        values = [id(one) if isinstance(one, Tensor) else one for one in given]
        modes = torch.is_grad_enabled(), torch.is_autocast_enabled()
        key = (name, modes, tuple(kwargs), tuple(values), tuple(versions))
        before = self._calls.get(key)
        if before is not None and all(ref() is not None for ref in before):
            self._inside = module
            if not _draws(module):
                self._report(name)
        self._calls[key] = [weakref.ref(one) for one in tensors]

    def _leave(self, module: Module, *_: Any) -> None:
        if module is self._inside:
            self._inside = None


def _comparable(given: Iterable[Any]) -> bool:
    return all(isinstance(one, (*_PLAIN, Tensor)) for one in given)


def _draws(module: Module) -> bool:
    """Tell whether a module's result is random: dropout that is on."""
    return any(
        part.training and ("Drop" in type(part).__name__ or getattr(part, "dropout", 0))
        for part in module.modules()
    )
