"""When the backward pass of one call of a module begins and ends, told by gradients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch


class BackwardCall:
    """Opens a component at the first gradient of an output, closes it at the last of an input.

    Hooks on tensors, not a module's full backward hooks: those replace inputs and outputs by
    views, which makes an in-place operation after the module an error. What is still open at the
    end of the backward pass is closed there.

    Args:
        guarded: Calls a function; if it fails, nothing but the timer stops.
        component: Opened and closed.
    """

    def __init__(
        self,
        guarded: Callable[[Callable[[], None]], None],
        component: AbstractContextManager[None],
    ) -> None:
        self._guarded = guarded
        self._component = component
        self._open = False
        self._inputs = self._missing = 0

    def watch(self, inputs: Any, output: Any) -> None:
        """Put hooks on the tensors of a call that take part in the backward pass."""
        outputs = [tensor for tensor in tensors(output) if tensor.requires_grad]
        if not outputs:
            return
        tensor: Any
        for tensor in outputs:
            tensor.register_hook(partial(self._told, self._begin))
        for tensor in tensors(inputs):
            # A leaf would keep its hook for ever.
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(partial(self._told, self._end_one))
                self._inputs += 1

    def _told(self, act: Callable[[], None], gradient: torch.Tensor) -> None:
        self._guarded(act)

    def _begin(self) -> None:
        if self._open:
            return
        self._open, self._missing = True, self._inputs
        self._component.__enter__()
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(self._end_of_pass)

    def _end_one(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._close()

    def _end_of_pass(self) -> None:
        self._guarded(self._close)

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._component.__exit__(None, None, None)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value and in the tuples, lists and mappings of it.

    >>> [t.item() for t in tensors((torch.tensor(1), {"a": [torch.tensor(2)]}, "text"))]
    [1, 2]
    """
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
