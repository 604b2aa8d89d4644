"""Named components of a training step, timed on the clocks of both the host and the device."""

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
from lightning_gpuprof.timing.step_timeline import StepTimeline


class Component(AbstractContextManager[None]):
    """Charges its body to a part of the current phase, which has the component's name.

    It may be entered again while it is open, for example by a module that calls itself. It must end
    in the step in which it began. In a step that is not timed by phase it does nothing.
    """

    def __init__(self, timeline: StepTimeline, name: str, marking: DeviceMarking | None) -> None:
        self.name = name
        self._timeline = timeline
        self._region = timeline.clock.part(name)
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
"""Returns the component with a name. The same name gives the same object."""
_ACTIVE: list[tuple[int, Components]] = []
"""The training thread and the components of every session that is being timed in this process."""


def activate(components: Components) -> Callable[[], None]:
    """Let `region` use these components in this thread. Returns a function that undoes this."""
    entry = threading.get_ident(), components
    _ACTIVE.append(entry)
    return lambda: _ACTIVE.remove(entry) if entry in _ACTIVE else None


def active_component(name: str) -> AbstractContextManager[None]:
    """Return a component of the session that is timed in this thread, or a null context."""
    current = threading.get_ident()
    for thread, components in reversed(_ACTIVE):
        if thread == current:
            return components(name)
    return nullcontext()


class BackwardCall:
    """Times the backward pass of a module's call.

    The component opens at the first gradient of an output and closes at the last gradient of an
    input, or at the end of the backward pass if it is still open then. The hooks are on tensors,
    because with a module's full backward hooks in-place operations on its output raise an error.
    """

    def __init__(
        self, guarded: Callable[[Callable[[], None]], None], component: AbstractContextManager[None]
    ) -> None:
        self._guarded, self._component = guarded, component
        self._open = False
        self._inputs = self._missing = 0

    def watch(self, inputs: Any, output: Any) -> None:
        """Put hooks on the inputs and outputs of the call that take part in the backward pass."""
        tensor: Any
        outputs = [tensor for tensor in tensors_of(output) if tensor.requires_grad]
        for tensor in outputs:
            tensor.register_hook(partial(self._call, self._begin))
        for tensor in tensors_of(inputs):
            # A leaf, such as a parameter, would keep the hook for ever.
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
