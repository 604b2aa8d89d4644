"""Measures how much of a batch is padding that no sample of it needs."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

MOST_NUMBERS = 4_000_000
"""A batch of more is not looked at: that would take milliseconds."""
LEAST_WIDTH = 16
MOST_TENSORS = 100
"""Of a batch of more the first are looked at."""


class Padded(NamedTuple):
    """A tensor of a batch, samples by positions.

    Args:
        path: Which, such as `0` or `input_ids`.
        kind: `ids` (whole numbers) or `vectors`.
        samples: How many.
        width: Positions of each.
        needed: Positions up to the last one at which the samples are not all one and the same
            value: 0-dimensional, on the tensor's device.
    """

    path: str
    kind: str
    samples: int
    width: int
    needed: Tensor


def padded_in(batch: Any) -> Iterator[Padded]:
    """Yield what a batch holds of sequences: whole numbers by position, or vectors by position.

    No value is read: on a GPU nothing waits for it.

    >>> ids = torch.zeros(2, 20, dtype=torch.long)
    >>> ids[:, :7] = torch.arange(1, 8)
    >>> [(one.path, one.width, int(one.needed)) for one in padded_in((ids, torch.zeros(2)))]
    [('0', 20, 7)]
    """
    for path, tensor in islice(_tensors(batch), MOST_TENSORS):
        if type(tensor) is not Tensor or tensor.layout is not torch.strided or tensor.is_nested:
            continue
        is_ids = tensor.dim() == 2 and not tensor.is_floating_point()
        is_vectors = tensor.dim() == 3 and tensor.is_floating_point()
        if not (is_ids or is_vectors) or tensor.dtype is torch.bool or tensor.is_complex():
            continue
        samples, width = tensor.shape[0], tensor.shape[1]
        if samples > 1 and width >= LEAST_WIDTH and 0 < tensor.numel() <= MOST_NUMBERS:
            yield Padded(path, "ids" if is_ids else "vectors", samples, width, _needed(tensor))


@torch.no_grad()
def _needed(tensor: Tensor) -> Tensor:
    pad = tensor[0, -1]
    if pad.dim():
        pad = pad[0]
    filled = (
        (tensor != pad).flatten(2).any(2).any(0) if tensor.dim() > 2 else (tensor != pad).any(0)
    )
    positions = torch.arange(1, tensor.shape[1] + 1, device=tensor.device)
    return (filled * positions).amax()


def _tensors(value: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _tensors(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _tensors(part, f"{path}.{number}" if path else str(number))
