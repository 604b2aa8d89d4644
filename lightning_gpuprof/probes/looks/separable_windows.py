"""Notes convolutions with a fixed window that is a product of one along each side."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.tensor_values import readable
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.windows import SeparableWindow

_CONVOLUTIONS = {"conv2d": 2, "conv3d": 3}
_SURE = (torch.float32, torch.float64)
"""In fewer digits a window differs too much from the product for one to be sure."""
TOLERANCE = 1e-5
"""Of a window's largest weight: what rounding to single precision leaves, and more."""
FEWER = 2
"""A window has so many times the weights of its sides at least: of 3 by 3 it has 1.5 times."""
ROUNDS = 3
MOST_NS = 500_000_000
"""A trial that has taken so long is tried no further."""


class Convolution(NamedTuple):
    """What a trial needs to know of a convolution: no tensor is kept."""

    name: str
    images: tuple[int, ...]
    weight: tuple[int, ...]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    """Of images, window and result."""
    channels_last: bool
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int
    trained: bool
    """Its images have a gradient."""

    @property
    def sides(self) -> list[int]:
        """Return the dimensions that the window is more than a point along."""
        return [dim for dim, size in enumerate(self.weight[2:]) if size > 1]


@dataclass
class SeparableWindows:
    """Such calls of one batch; `seen` is told of each function on data."""

    calls: list[tuple[Place, Convolution, int]] = field(default_factory=list)
    """With its line and the time that it took."""

    def seen(self, call: OnData) -> None:
        """Note a convolution of each channel by itself with such a window."""
        dims = _CONVOLUTIONS.get(call.name)
        if dims is None or call.place is None:
            return
        images, weight = call.argument("input", 0, None), call.argument("weight", 1, None)
        if not (isinstance(images, Tensor) and isinstance(weight, Tensor)):
            return
        if weight.requires_grad or weight.shape[1] != 1 or not is_separable(weight):
            return
        result, padding = call.result, call.argument("padding", 4, 0)
        one = Convolution(
            name=call.name,
            images=tuple(images.shape),
            weight=tuple(weight.shape),
            dtypes=(images.dtype, weight.dtype, result.dtype),
            channels_last=not images.is_contiguous() and images.stride(-dims - 1) == 1,
            stride=_each(call.argument("stride", 3, 1), dims),
            padding=padding if isinstance(padding, str) else _each(padding, dims),
            dilation=_each(call.argument("dilation", 5, 1), dims),
            groups=call.argument("groups", 6, 1),
            trained=images.requires_grad and result.requires_grad,
        )
        self.calls.append((call.place, one, call.taken_ns))


@torch.no_grad()
def is_separable(weight: Tensor) -> bool:
    """Tell whether each channel's window is the product of one along each of its sides.

    Then it is that of the rows and columns through its largest weight. Small windows are none, nor
    is one on a device, whose values are not read.

    >>> bell = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0])
    >>> is_separable(torch.outer(bell, bell)[None, None]), is_separable(torch.eye(5)[None, None])
    (True, False)
    """
    sizes = [size for size in weight.shape[2:] if size > 1]
    if weight.dtype not in _SURE or not readable(weight) or not weight.numel():
        return False
    if len(sizes) < 2 or prod(sizes) < FEWER * sum(sizes):
        return False
    windows = weight.detach().double().flatten(1)
    at = windows.abs().argmax(1, keepdim=True)
    largest = windows.gather(1, at)
    product = largest[:, :, None]
    for dim, size in enumerate(weight.shape[2:]):
        stride = prod(weight.shape[3 + dim :])
        along = at - at // stride % size * stride + torch.arange(size, device="cpu") * stride
        side = windows.gather(1, along) / largest
        product = (product * side[:, None]).flatten(1)[:, :, None]
    apart = (product[:, :, 0] - windows).abs()
    return bool((apart <= TOLERANCE * largest.abs()).all())


class _Trial(NamedTuple):
    whole_ns: int
    split_ns: int
    between_bytes: int


def separable_windows(
    batches: Sequence[SeparableWindows], clock: Callable[[], int]
) -> tuple[SeparableWindow, ...]:
    """Return such convolutions of every batch by the program's function, and try both forms.

    The images of a trial are ones, of the sizes that were seen: no tensor of the program's is
    touched, and nothing is drawn.
    """
    tried: dict[Convolution, _Trial] = {}
    found = []
    for every in in_each([one.calls for one in batches], lambda call: call[0][::2]):
        calls = every[-1]
        for _, one, _ in calls:
            if one not in tried:
                tried[one] = _try(one, clock)
        ranked = sorted(calls, key=lambda call: -tried[call[1]].whole_ns)
        dearest = ranked[0][1]
        found.append(
            SeparableWindow(
                calls=len(calls),
                size=dearest.weight[2:],
                channels=dearest.weight[0],
                groups=dearest.groups,
                taken_ns=min(sum(taken_ns for _, _, taken_ns in ones) for ones in every),
                whole_ns=sum(tried[one].whole_ns for _, one, _ in calls),
                split_ns=sum(tried[one].split_ns for _, one, _ in calls),
                between_bytes=sum(tried[one].between_bytes for _, one, _ in calls),
                trained=any(one.trained for _, one, _ in calls),
                places=first_shown(dict.fromkeys(place for place, _, _ in ranked)),
            )
        )
    return tuple(found)


def _try(one: Convolution, clock: Callable[[], int]) -> _Trial:
    """Try both forms in turns, and return the least time of each."""
    whole: list[int] = []
    split: list[int] = []
    between = 0
    with torch.set_grad_enabled(one.trained):
        for _ in range(ROUNDS):
            whole.append(_pass(one, [one.sides], clock)[0])
            taken_ns, between = _pass(one, [[dim] for dim in one.sides], clock)
            split.append(taken_ns)
            if sum(whole) + sum(split) > MOST_NS:
                break
    return _Trial(min(whole), min(split), between)


def _pass(
    one: Convolution, parts: Sequence[Sequence[int]], clock: Callable[[], int]
) -> tuple[int, int]:
    """Return what convolutions along parts of the sides take, and the memory between them."""
    kind, weight_kind, result_kind = one.dtypes
    images = torch.ones(one.images, dtype=kind, device="cpu")
    if one.channels_last:
        layout = torch.channels_last if one.name == "conv2d" else torch.channels_last_3d
        images = images.contiguous(memory_format=layout)
    images.requires_grad_(one.trained)
    steps = [_part(one, sides, first=not number) for number, sides in enumerate(parts)]
    weights = [torch.ones(shape, dtype=weight_kind, device="cpu") for shape, _ in steps]
    begin_ns = clock()
    result, between = images, 0
    lowered = len(set(one.dtypes)) > 1
    with _autocast(result_kind) if lowered else nullcontext():
        for weight, (_, options) in zip(weights, steps, strict=True):
            between += 0 if result is images else result.nbytes
            result = getattr(functional, one.name)(result, weight, **options)
    if one.trained:
        torch.autograd.grad(result, images, torch.ones_like(result))
    return clock() - begin_ns, 2 * between if one.trained else between


def _part(
    one: Convolution, sides: Sequence[int], *, first: bool
) -> tuple[list[int], dict[str, Any]]:
    """Return the weights' shape and the options of a convolution along some sides.

    A stride or padding along none of them goes with the first.
    """
    every, size = one.sides, one.weight[2:]
    own = [dim in sides or (first and dim not in every) for dim in range(len(size))]
    shape = [n if mine else 1 for n, mine in zip(size, own, strict=True)]
    padding = one.padding
    if not isinstance(padding, str):
        padding = tuple(n if mine else 0 for n, mine in zip(padding, own, strict=True))
    return [one.weight[0], 1, *shape], {
        "stride": tuple(n if mine else 1 for n, mine in zip(one.stride, own, strict=True)),
        "padding": padding,
        "dilation": one.dilation,
        "groups": one.groups if first else one.weight[0],
    }


def _autocast(kind: torch.dtype) -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=kind)


def _each(value: Any, dims: int) -> tuple[int, ...]:
    """Return an option of a convolution for each dimension.

    >>> _each(1, 2), _each((1, 2), 2), _each([3], 2)
    ((1, 1), (1, 2), (3, 3))
    """
    every = (value,) if isinstance(value, int) else tuple(value)
    return every * dims if len(every) == 1 else every
