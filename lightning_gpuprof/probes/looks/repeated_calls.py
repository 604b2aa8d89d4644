"""Finds modules that are called again with the same input, and compute the same again."""

import threading
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.weak import TensorWeakRef

from lightning_gpuprof.probes.latency.latency import tensors_in
from lightning_gpuprof.probes.stacks.stack_lines import own_line

SAME = 1e-6
"""Outputs are equal where their sums and norms differ by no more than this share of the norm: the
order in which a device adds up changes the last digits, another mask of a dropout far more."""
_PLAIN = (int, float, bool, str, bytes, type(None))


class _Call(NamedTuple):
    taken_ns: int
    inputs: list[TensorWeakRef]
    """Held weakly: their memory is not ours to keep, and may come to hold other values."""
    backward_pass: int
    gradient: bool
    digest: Tensor | None
    place: tuple[str, int, str] | None


class Repeat(NamedTuple):
    """Calls of one module with one input within a batch; the longest one is needed."""

    module: int
    calls: int
    repeat_ns: int
    backward_ns: int
    """Of `repeat_ns`, what has a gradient in the same backward pass as another of the calls."""
    difference: Tensor | None
    """How far the outputs differ (0-dimensional, on their device); None where it was not seen."""
    places: tuple[tuple[str, int, str] | None, ...]
    passes: int = 1
    """Backward passes that the calls with a gradient are in."""


@dataclass
class RepeatedCalls:
    """Notes the calls of a model's modules within a batch, by what they were given.

    The same input is the same tensor object (or the same view of one), unchanged since. What is
    called inside the backward pass (recomputed activations), by another thread or in evaluation
    does not count.

    Args:
        root: The model; calls count while it is in training mode.
        modules: Numbers (`id`) of the modules to look at.
        clock: Returns nanoseconds.
        closely: Take a digest of each output and the line of each call, too.
    """

    root: Module
    modules: Container[int]
    clock: Callable[[], int]
    closely: bool = False
    _calls: dict[Any, list[_Call]] = field(default_factory=dict)
    _open: list[tuple[int, int]] = field(default_factory=list)
    _parameters: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)
    _pass: int = 0
    _thread: int = field(default_factory=threading.get_ident)

    def enter(self, module: Module) -> None:
        """Begin a module's call."""
        if id(module) in self.modules and self._counts():
            self._open.append((id(module), self.clock()))

    def leave(
        self, module: Module, inputs: Any, output: Any, frame: FrameType | None = None
    ) -> None:
        """End a module's call."""
        if id(module) not in self.modules or not self._counts():
            return
        while self._open and self._open[-1][0] != id(module):
            self._open.pop()  # an exception ended it, and was caught
        if not self._open:
            return
        taken_ns = self.clock() - self._open.pop()[1]
        given = _given(inputs)
        outputs = [one for one in tensors_in(output) if isinstance(one, Tensor)]
        if given is None or not given[1] or not outputs:
            return
        key, tensors = given
        same = self._calls.setdefault((id(module), self._version(module), key), [])
        if same and any(ref() is None for ref in same[-1].inputs):
            same.clear()  # what was given is gone: this is another at the same address
        same.append(
            _Call(
                taken_ns,
                tensors,
                self._pass,
                any(one.requires_grad for one in outputs),
                _digest(outputs) if self.closely else None,
                own_line(frame) if self.closely else None,
            )
        )

    def before_backward(self) -> None:
        """Note that a backward pass begins."""
        self._pass += 1

    def end_batch(self) -> list[Repeat]:
        """Return what was repeated in this batch, and forget its calls."""
        calls, self._calls, self._open = self._calls, {}, []
        return [_repeat(key[0], same) for key, same in calls.items() if len(same) > 1]

    def _counts(self) -> bool:
        return (
            self.root.training
            and threading.get_ident() == self._thread
            and torch._C._current_graph_task_id() == -1
            # What is computed here would become a part of the graph, and run at each replay.
            and not capturing()
        )

    def _version(self, module: Module) -> int:
        held = self._parameters.get(id(module))
        if held is None:
            held = self._parameters[id(module)] = tuple(module.parameters())
        return sum(parameter._version for parameter in held)


def capturing() -> bool:
    """Tell whether a CUDA graph is being captured in this thread."""
    begun = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return bool(begun) and torch.cuda.is_current_stream_capturing()


def _repeat(module: int, same: list[_Call]) -> Repeat:
    longest = max(range(len(same)), key=lambda n: same[n].taken_ns)
    passes: dict[int, list[int]] = {}
    for call in same:
        if call.gradient:
            passes.setdefault(call.backward_pass, []).append(call.taken_ns)
    return Repeat(
        module,
        len(same),
        sum(call.taken_ns for n, call in enumerate(same) if n != longest),
        sum(sum(taken) - max(taken) for taken in passes.values()),
        _difference([call.digest for call in same]),
        tuple(call.place for call in same),
        len(passes),
    )


@torch.no_grad()
def _difference(digests: list[Tensor | None]) -> Tensor | None:
    known = [one for one in digests if one is not None]
    if len(known) < len(digests):
        return None
    each = torch.stack(known)
    return (each - each[0]).abs().amax() / each[0, 1].clamp(min=torch.finfo(each.dtype).tiny)


def _given(inputs: Any) -> tuple[Any, list[TensorWeakRef]] | None:
    """Return a key of what a call was given, and its tensors; None where that cannot be told."""
    refs: list[TensorWeakRef] = []

    def key(value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.is_inference() or value.layout is not torch.strided:
                raise _Opaque
            base = value if value._base is None else value._base
            refs.append(TensorWeakRef(base))
            shape = (tuple(value.shape), value.stride(), value.storage_offset(), value.dtype)
            return (id(base), value._version, *shape)
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            return tuple((name, key(one)) for name, one in value.items())
        if isinstance(value, list | tuple):
            return tuple(key(one) for one in value)
        raise _Opaque

    try:
        return key(inputs), refs
    except _Opaque:
        return None


class _Opaque(Exception):
    """An object whose sameness cannot be told."""


@torch.no_grad()
def _digest(outputs: list[Tensor]) -> Tensor | None:
    """Return sum and norm of the outputs without a copy of them; None of what has no such."""
    digests = []
    for one in outputs:
        if type(one) is not Tensor or one.layout is not torch.strided:
            return None
        if one.is_floating_point():
            exact = torch.float64 if one.device.type in ("cpu", "cuda") else torch.float32
            norm = torch.linalg.vector_norm(one, dtype=exact)
            digests.append(torch.stack([one.sum(dtype=exact), norm]))
    return torch.stack(digests).sum(0) if digests else None
