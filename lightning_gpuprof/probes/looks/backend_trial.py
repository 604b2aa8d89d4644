"""Tries what layers take with a backend of torch's that is switched off, and without it."""

from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.functional import linear
from torch.nn.modules.conv import _ConvNd

ROUNDS = 5
MOST_NS = 3_000_000_000
"""The whole trial takes about so long at most: then layers that are left are not tried."""
_LOW_PRECISION = (torch.bfloat16, torch.float16)
"""Of these oneDNN has products; others are the BLAS library's either way."""


class Layer(NamedTuple):
    """A call of a layer that the backend would compute: all that its time depends on."""

    shape: tuple[int, ...]
    weight: tuple[int, ...]
    dtype: torch.dtype
    bias: bool
    trained: bool
    """Its result has a gradient."""
    passes_on: bool
    """Its input has one."""
    settings: tuple[Any, ...] | None
    """Of a convolution: stride, padding, dilation, transposed, output's padding, groups."""

    @property
    def work(self) -> int:
        """Products, roughly: what is tried first."""
        return torch.Size(self.shape).numel() * torch.Size(self.weight).numel()


def called(module: Module, args: tuple[Any, ...], output: Any) -> Layer | None:
    """Return a module's call as one that can be tried; None where the backend has no part in it."""
    convolves = isinstance(module, _ConvNd)
    if not convolves and not isinstance(module, Linear):
        return None
    given = args[0] if args else None
    if not isinstance(given, Tensor) or not isinstance(output, Tensor):
        return None
    if not convolves and output.dtype not in _LOW_PRECISION:
        return None
    weight: Tensor = module.weight  # type: ignore[assignment]
    return Layer(
        shape=tuple(given.shape),
        weight=tuple(weight.shape),
        dtype=output.dtype,
        bias=module.bias is not None,
        trained=output.requires_grad,
        passes_on=given.requires_grad,
        settings=_settings(module) if convolves else None,
    )


def _settings(module: Any) -> tuple[Any, ...]:
    padding = module.padding
    if isinstance(padding, str):  # "same": half of what the kernel reaches; the last bit is no time
        padding = tuple(one // 2 for one in module._reversed_padding_repeated_twice[::2][::-1])
    return (
        module.stride,
        padding,
        module.dilation,
        module.transposed,
        module.output_padding,
        module.groups,
    )


def try_both(
    layers: Counter[Layer], backend: Any, clock: Callable[[], int], *, most_ns: int = MOST_NS
) -> tuple[int, int, int]:
    """Return how many calls were tried, what they take as it is set, and with the backend.

    No random number is drawn, and the switch is put back.

    Args:
        layers: Calls of a step.
        backend: Such as `torch.backends.mkldnn`.
        clock: Returns nanoseconds.
        most_ns: About what it may take in all.
    """
    begun_ns, was = clock(), backend.enabled
    tried, as_set_ns, enabled_ns = 0, 0.0, 0.0
    ordered: Iterable[tuple[Layer, int]] = sorted(
        layers.items(), key=lambda item: -item[0].work * item[1]
    )
    try:
        for layer, count in ordered:
            if clock() - begun_ns > most_ns:
                break
            taken: dict[bool, list[int]] = {was: [], True: []}
            run = _runner(layer)
            for _ in range(ROUNDS + 1):
                for enabled in taken:
                    backend.enabled = enabled
                    start_ns = clock()
                    run()
                    taken[enabled].append(clock() - start_ns)
                if len(taken[True]) > 1 and clock() - begun_ns > most_ns:
                    break
            # A first round fills caches, and chooses kernels.
            tried += count
            as_set_ns += count * median(taken[was][1:])
            enabled_ns += count * median(taken[True][1:])
    finally:
        backend.enabled = was
    return tried, round(as_set_ns), round(enabled_ns)


def _runner(layer: Layer) -> Callable[[], None]:
    """Return what computes a layer once, forward and backward."""
    given = _values(layer.shape, layer.dtype, trained=layer.passes_on)
    weight = _values(layer.weight, layer.dtype, trained=layer.trained)
    width = layer.weight[0]
    if layer.settings is not None and layer.settings[3]:  # transposed: the other way round
        width = layer.weight[1] * layer.settings[5]
    bias = _values((width,), layer.dtype, trained=layer.trained) if layer.bias else None

    def run() -> None:
        with torch.enable_grad(), torch.autocast("cpu", enabled=False):
            if layer.settings is None:
                output = linear(given, weight, bias)
            else:
                output = torch.convolution(given, weight, bias, *layer.settings)
            if layer.trained:
                torch.autograd.backward(output, torch.ones_like(output))
        given.grad = weight.grad = None

    return run


def _values(shape: tuple[int, ...], dtype: torch.dtype, *, trained: bool) -> Tensor:
    size = torch.Size(shape)
    values = torch.linspace(-1, 1, size.numel(), device="cpu").to(dtype).view(size)
    return values.requires_grad_(trained)
