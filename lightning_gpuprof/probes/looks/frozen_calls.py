"""Notes what frozen modules are given, to tell whether they are given the same again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from lightning_gpuprof.probes.latency.latency import tensors_in
from lightning_gpuprof.probes.looks.function_mode import may_be_fast
from lightning_gpuprof.probes.looks.repeated_calls import capturing
from lightning_gpuprof.probes.looks.tensor_values import is_plain
from lightning_gpuprof.probes.scalars.transfer import Pending, Transfer
from lightning_gpuprof.probes.stacks.stack_lines import Place, own_line

COLUMNS = 32
"""Numbers of each sample that tell it from others: to read them all would take a device's time."""


def frozen_modules(model: Module) -> dict[str, Module]:
    """Return the outermost modules inside a model of which no weight is trained, by their names.

    Attention that may take torch's fast path is left out: it does not where it has hooks.
    """
    found: dict[str, Module] = {}
    for name, module in model.named_modules():
        weights = list(module.parameters())
        inside = any(name.startswith(f"{other}.") for other in found)
        if name and weights and not inside and not any(one.requires_grad for one in weights):
            found[name] = module
    return {name: module for name, module in found.items() if not may_be_fast(module)}


@dataclass
class FrozenCalls:
    """The calls of one frozen module.

    Args:
        name: As in `named_modules()`.
        clock: Returns nanoseconds.
        transfer: Queues a copy to the host.
    """

    name: str
    clock: Callable[[], int]
    transfer: Transfer
    usable: bool = True
    """What it gives follows from what it is given, and that has a row for each sample."""
    taken_ns: list[int] = field(default_factory=list)
    out_bytes: int = 0
    """Of the results for one sample."""
    place: Place | None = None
    rows: set[bytes] = field(default_factory=set)
    seen: set[bytes] = field(default_factory=set)
    _begin_ns: int = 0
    _queued: list[tuple[bool, Pending]] = field(default_factory=list)

    def enter(self) -> None:
        """Begin a call."""
        self._begin_ns = self.clock()

    def leave(
        self, module: Module, inputs: Any, output: Any, frame: FrameType | None, again: bool
    ) -> None:
        """End a call; `again` says that it may be of samples that were given before."""
        taken_ns = self.clock() - self._begin_ns
        if capturing() or torch._C._len_torch_dispatch_stack():
            return
        # A look at torch's functions is not told of what is read here.
        with torch._C.DisableTorchFunction():
            columns = self._columns(module, inputs)
            if columns is None:
                self.usable = False
                return
            self._queued.append((again, self.transfer(columns)))
        if not again:
            self.taken_ns.append(taken_ns)
            results = (one for one in tensors_in(output) if isinstance(one, Tensor))
            self.out_bytes = sum(one.nbytes for one in results) // len(columns)
            self.place = self.place or own_line(frame)

    def _columns(self, module: Module, inputs: Any) -> Tensor | None:
        """Return what tells the samples apart; None where that, or the results, cannot be told."""
        given = [one for one in tensors_in(inputs) if isinstance(one, Tensor) and one.ndim]
        if not given or not all(map(is_plain, given)) or not given[0].numel():
            return None
        if any(one.requires_grad or one.is_complex() for one in given):
            return None
        if any(one.training and isinstance(one, _CHANGING) for one in module.modules()):
            return None
        weight = next(module.parameters()).detach()
        if not is_plain(weight) or weight.device != given[0].device:
            return None
        alike = [one for one in given if len(one) == len(given[0]) and one.numel()]
        columns = [_columns(one) for one in alike if one.device == given[0].device]
        # A target network is frozen, too, but follows another's weights.
        return torch.cat([*columns, _columns(weight[None]).expand(len(given[0]), -1)], 1)

    def arrived(self, *, wait: bool = False) -> None:
        """Take over what has arrived on the host."""
        while self._queued and (wait or self._queued[0][1].ready()):
            again, values = self._queued.pop(0)
            rows = {row.tobytes() for row in values.result().numpy()}
            if again:
                self.seen |= rows & self.rows
            else:
                self.rows |= rows


_CHANGING = (_DropoutNd, _BatchNorm)
"""In training mode these give others for the same."""


@torch.no_grad()
def _columns(given: Tensor) -> Tensor:
    """Return numbers of each sample from all over it, without a copy of the rest."""
    inside = given.shape[1:]
    count = inside.numel()
    at = torch.arange(min(COLUMNS, count), device=given.device) * count // min(COLUMNS, count)
    where: tuple[Any, ...] = (slice(None), *_unravelled(at, inside))
    return given[where].reshape(len(given), -1).double()


def _unravelled(at: Tensor, shape: torch.Size) -> Iterator[Tensor]:
    """Return where numbers are along each dimension, given where in all of them.

    >>> [one.tolist() for one in _unravelled(torch.tensor([0, 5]), torch.Size((2, 3)))]
    [[0, 1], [0, 2]]
    """
    every = shape.numel()
    for size in shape:
        every //= size
        yield at // every % size
