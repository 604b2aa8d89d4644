"""Follows tensors that are indexed slice after slice (`x[:, t]`), where a gradient goes back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.slices import TakenApart

_INDEX, _SELECT, _NARROW = "__getitem__", "select", "narrow"
LEAST_SLICES = 4
"""Of fewer the tensor is read hardly more often than once."""
ROUNDS = 3
TRIED = 64
"""So many slices are tried at most: each one's gradient costs as much as the others'. Of few the
first, for which memory is new, tells too much."""
MOST_NUMBERS = 1 << 26
"""So many numbers are filled in a trial at most, which takes about a tenth of a second; larger
tensors are not tried, for want of memory."""
MOST_TENSORS = 3


class Part(NamedTuple):
    """What an index takes of a tensor: places of one dimension, of all others all."""

    dim: int
    start: int
    size: int
    keeps: bool
    """The dimension stays, as in `x[:, 3:5]`."""


@dataclass
class Source:
    """A tensor that one line takes parts of, once and again."""

    place: Place
    shape: tuple[int, ...]
    dtype: torch.dtype
    on_host: bool
    parts: list[Part] = field(default_factory=list)


@dataclass
class Slices:
    """What one batch takes apart; `seen` is told of each function."""

    sources: list[Source] = field(default_factory=list)
    _known: Any = field(default_factory=WeakIdKeyDictionary)

    def seen(self, name: str, args: Any, results: Sequence[Tensor], place: Place | None) -> None:
        """Note a call that takes a part of a tensor."""
        tensor = args[0] if args else None  # all may be given by name
        if place is None or not results[0].requires_grad or not isinstance(tensor, Tensor):
            return
        part = _part(name, args)
        if part is None:
            return
        lines: dict[Place, Source] = self._known.setdefault(tensor, {})
        if place not in lines:
            on_host = tensor.device.type == "cpu"
            lines[place] = Source(place, tuple(tensor.shape), tensor.dtype, on_host)
            self.sources.append(lines[place])
        lines[place].parts.append(part)


def taken_apart(batches: Sequence[Slices], clock: Callable[[], int]) -> tuple[TakenApart, ...]:
    """Return the lines that take tensors apart in every batch, the dearest first.

    On a CPU each size is tried: the backward pass of some slices of zeros, and that of the same
    parts made at once.
    """
    apart = [[one for one in batch.sources if _apart(one.parts)] for batch in batches]
    found = [
        _line(every[-1], clock) for every in in_each(apart, lambda one: (one.place, len(one.parts)))
    ]
    return tuple(sorted(found, key=lambda one: -(one.with_ns or one.slices * one.numbers)))


def _line(sources: Sequence[Source], clock: Callable[[], int]) -> TakenApart:
    first = sources[0]
    times = None
    if all(one.on_host and prod(one.shape) <= MOST_NUMBERS for one in sources):
        tried = [_try(one, clock) for one in sources[:MOST_TENSORS]]
        scale = len(sources) / len(tried)
        times = tuple(round(scale * sum(one[i] for one in tried)) for i in (0, 1))
    return TakenApart(
        slices=sum(len(one.parts) for one in sources),
        tensors=len(sources),
        numbers=prod(first.shape),
        dim=first.parts[0].dim,
        single=not any(part.keeps for one in sources for part in one.parts),
        with_ns=None if times is None else times[0],
        without_ns=None if times is None else times[1],
        places=first_shown([first.place]),
    )


def _part(name: str, args: Any) -> Part | None:
    """Return what a call takes; None of other calls, and of those that take it by a list."""
    tensor = args[0]
    if name == _INDEX and len(args) == 2:
        return _indexed(tensor, args[1] if isinstance(args[1], tuple) else (args[1],))
    numbers = all(isinstance(one, Integral) for one in args[1:])
    if name == _SELECT and len(args) == 3 and numbers:
        dim = args[1] % tensor.ndim
        return Part(dim, args[2] % tensor.shape[dim], 1, keeps=False)
    if name == _NARROW and len(args) == 4 and numbers:
        dim = args[1] % tensor.ndim
        start = args[2] + tensor.shape[dim] if args[2] < 0 else args[2]
        return Part(dim, start, args[3], keeps=True)
    return None


def _indexed(tensor: Tensor, index: tuple[Any, ...]) -> Part | None:
    if sum(one is ... for one in index) > 1:
        return None
    at = next((i for i, one in enumerate(index) if one is ...), None)
    if at is not None:
        every = (slice(None),) * (tensor.ndim - len(index) + 1)
        index = index[:at] + every + index[at + 1 :]
    parts: list[Part] = []
    for dim, one in enumerate(index):
        if isinstance(one, Integral) and not isinstance(one, bool):
            parts.append(Part(dim, int(one) % tensor.shape[dim], 1, keeps=False))
        elif isinstance(one, slice) and not any(isinstance(end, Tensor) for end in _ends(one)):
            taken = range(*one.indices(tensor.shape[dim]))
            if taken.step != 1 or not taken:
                return None
            if len(taken) < tensor.shape[dim]:
                parts.append(Part(dim, taken.start, len(taken), keeps=True))
        else:
            return None
    return parts[0] if len(parts) == 1 else None


def _ends(one: slice) -> tuple[Any, Any, Any]:
    return one.start, one.stop, one.step


def _apart(parts: Sequence[Part]) -> bool:
    """Tell whether these are several parts along one dimension, none of which has what others have.

    Windows that overlap are not to be had by taking a tensor apart once.
    """
    if len(parts) < LEAST_SLICES or len({(one.dim, one.keeps) for one in parts}) > 1:
        return False
    ordered = sorted(parts, key=lambda one: one.start)
    return all(one.start + one.size <= after.start for one, after in pairwise(ordered))


def _try(source: Source, clock: Callable[[], int]) -> tuple[int, int]:
    """Return what the parts take in forward and backward as they are, and made at once."""
    taken: dict[bool, list[int]] = {True: [], False: []}
    parts = sorted(source.parts, key=lambda one: one.start)
    count = min(TRIED, max(LEAST_SLICES, MOST_NUMBERS // max(1, prod(source.shape))))
    some = parts[:: max(1, len(parts) // count)][:count]
    with torch.enable_grad():
        whole = torch.zeros(source.shape, dtype=source.dtype, device="cpu", requires_grad=True)
        for number in range(2 * ROUNDS):
            apart = number % 2 == 0
            begin_ns = clock()
            pieces = [_piece(whole, one) for one in some] if apart else _pieces(whole, parts)
            torch.autograd.grad(pieces, whole, [torch.zeros_like(one) for one in pieces])
            taken[apart].append(clock() - begin_ns)
    return min(taken[True]) * len(parts) // len(some), min(taken[False])


def _piece(whole: Tensor, part: Part) -> Tensor:
    piece = whole.narrow(part.dim, part.start, part.size)
    return piece if part.keeps else whole.select(part.dim, part.start)


def _pieces(whole: Tensor, parts: Sequence[Part]) -> list[Tensor]:
    """Return parts in order, of a tensor that is split once, what lies between them left out."""
    if not parts[0].keeps:
        every = whole.unbind(parts[0].dim)
        return [every[one.start] for one in parts]
    dim, sizes, taken, at = parts[0].dim, [], [], 0
    for one in parts:
        if one.start > at:
            sizes.append(one.start - at)
        taken.append(len(sizes))
        sizes.append(one.size)
        at = one.start + one.size
    if at < whole.shape[dim]:
        sizes.append(whole.shape[dim] - at)
    every = torch.split(whole, sizes, dim)
    return [every[i] for i in taken]
