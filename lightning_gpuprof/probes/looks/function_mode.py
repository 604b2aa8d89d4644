"""Tells of every torch function that a thread calls."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.nn import Module, MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from lightning_gpuprof.probes.compiling import is_compiling


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
        # Dynamo traces what is below as a part of what it compiles: there it finds nothing of ours.
        if is_compiling() or not self.active:
            return func(*args, **kwargs)
        begin_ns = self._clock()
        output = func(*args, **kwargs)
        taken_ns = self._clock() - begin_ns
        # Modes and tensors of the program are not told of what is read here.
        with torch._C.DisableTorchFunction():
            self._seen(func, args, kwargs, output, taken_ns, _caller(sys._getframe(1)))
        return output

    def start(self) -> None:
        """Be told of every function from now on, below modes that are there already.

        Who leaves one of those takes off the topmost, which is then not this one.
        """
        stack = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        for _ in stack:
            torch.overrides._pop_mode()  # type: ignore[no-untyped-call]
        for mode in (self, *stack):
            torch.overrides._push_mode(mode)  # type: ignore[no-untyped-call]

    def stop(self) -> bool:
        """Tell of nothing more, and leave the stack of modes, also from below others.

        Returns:
            Whether it has left. Where a function is being told of it has not: torch takes a mode
            off its stack meanwhile, and puts it back. Then this is to be called once more.
        """
        self.active = False
        stack = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if self not in stack:
            return False
        above = stack[stack.index(self) + 1 :]
        for _ in range(len(above) + 1):
            torch.overrides._pop_mode()  # type: ignore[no-untyped-call]
        for mode in above:
            torch.overrides._push_mode(mode)  # type: ignore[no-untyped-call]
        return True


def _caller(frame: FrameType) -> FrameType:
    """Return who called a function: a mode or a tensor of the program's only hands it on."""
    while frame.f_code.co_name == "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    return frame


def may_be_fast(model: Module) -> bool:
    """Tell whether attention may take torch's fast path, which it does not where it is watched.

    Modules in evaluation mode do; the last bits of their results are others on the usual path.
    """
    kinds = (MultiheadAttention, TransformerEncoderLayer, TransformerEncoder)
    return any(isinstance(one, kinds) and not one.training for one in model.modules())
