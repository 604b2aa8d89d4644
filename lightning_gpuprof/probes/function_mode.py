"""Tells of every torch function that a thread calls."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from typing_extensions import override


class Watching(TorchFunctionMode):
    """Tells of each call of a torch function in this thread while it is active.

    Args:
        seen: Is told of each, as `FunctionCalls.seen` is.
        clock: Returns nanoseconds.
    """

    def __init__(self, seen: Callable[..., Any], clock: Callable[[], int]) -> None:
        super().__init__()
        self._seen, self._clock = seen, clock
        self.active = True

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and tell of it."""
        kwargs = kwargs or {}
        if not self.active:
            return func(*args, **kwargs)
        begin_ns = self._clock()
        output = func(*args, **kwargs)
        taken_ns = self._clock() - begin_ns
        self._seen(func, args, kwargs, output, taken_ns, sys._getframe(1))
        return output

    def start(self) -> None:
        """Be told of every function from now on."""
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Tell of nothing more, and leave the stack of modes unless another one lies on top."""
        self.active = False
        stack = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if stack and stack[-1] is self:
            self.__exit__(None, None, None)
