"""A named component of a training step: one region on the host's clock and the device's."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.autograd import at_end_of_backward
from lightning_gpuprof.adapters.profiler import traced
from lightning_gpuprof.tensors import leaves_of
from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.phase_clock import PartRegion
from lightning_gpuprof.timing.step_timeline import StepTimeline


class Component(AbstractContextManager[None]):
    """Charges its body to a part, of this name, of whatever phase it is entered in.

    It may be entered again while it is open, as by a module that calls itself, and ends in the step
    in which it began. In a step that is not timed by phase it does nothing.
    """

    def __init__(self, timeline: StepTimeline, name: str, marking: DeviceMarking | None) -> None:
        self.name = name
        self._timeline = timeline
        self._region = PartRegion(timeline.clock, name)
        self._marking = marking
        self._part = 0 if marking is None else marking.marks.part(name)
        self._entered: list[tuple[Any, Any, int] | None] = []
        self._on_gpu = torch.cuda.is_available()

    @property
    def timed(self) -> bool:
        """Whether the running step is timed by phase."""
        return self._timeline.timed

    @override
    def __enter__(self) -> None:
        if not self._timeline.timed:
            self._entered.append(None)
            return
        self._region.__enter__()
        # Events recorded while a CUDA graph is being captured would belong to the graph.
        capturing = self._on_gpu and torch.cuda.is_current_stream_capturing()
        marking = None if capturing else self._marking
        if marking is not None:
            marking.opens_part(self._part)
        span = traced(self.name)
        if span is not None:
            span.__enter__()
        self._entered.append((marking, span, threading.get_ident()))

    @override
    def __exit__(self, *raised: Any) -> None:
        entered = self._entered.pop() if self._entered else None
        if entered is None:
            return
        marking, span, thread = entered
        if span is not None and thread == threading.get_ident():
            span.__exit__(None, None, None)
        if marking is not None:
            marking.closes_part(self._part)
        self._region.__exit__(None, None, None)


Components = Callable[[str], Component]
"""Returns the component of a name, the same object each time."""
_ACTIVE: list[tuple[int, Components]] = []
"""Of each run that is timed in this process: the thread that trains, and its components."""


def activate(components: Components) -> Callable[[], None]:
    """Let `region` use these components in this thread; returns the function that undoes it."""
    entry = threading.get_ident(), components
    _ACTIVE.append(entry)
    return lambda: _ACTIVE.remove(entry) if entry in _ACTIVE else None


def active_component(name: str) -> AbstractContextManager[None]:
    """Return the component of a name in the run that is timed in this thread, or a null context."""
    if not _ACTIVE or _ACTIVE[-1][0] != threading.get_ident():
        return nullcontext()
    return _ACTIVE[-1][1](name)


class BackwardCall:
    """Opens a component at the first gradient of an output, closes it at the last of an input.

    By hooks on tensors: a module's full backward hooks make in-place operations after it an error.
    A component that is still open at the end of the backward pass is closed there.
    """

    def __init__(
        self, guarded: Callable[[Callable[[], None]], None], component: AbstractContextManager[None]
    ) -> None:
        self._guarded, self._component = guarded, component
        self._open = False
        self._inputs = self._missing = 0

    def watch(self, inputs: Any, output: Any) -> None:
        """Put hooks on the tensors of a call that take part in the backward pass."""
        tensor: Any
        outputs = [tensor for tensor in tensors_of(output) if tensor.requires_grad]
        for tensor in outputs:
            tensor.register_hook(partial(self._call, self._begin))
        for tensor in tensors_of(inputs):
            # A leaf would keep its hook for ever.
            if outputs and tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(partial(self._call, self._end_of_input))
                self._inputs += 1

    def _call(self, act: Callable[[], None], gradient: torch.Tensor) -> None:
        self._guarded(act)

    def _begin(self) -> None:
        if self._open:
            return
        ends = at_end_of_backward(partial(self._guarded, self._close))
        if ends or self._inputs:
            self._open, self._missing = True, self._inputs
            self._component.__enter__()

    def _end_of_input(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._close()

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._component.__exit__(None, None, None)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and mappings."""
    return (leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor))
