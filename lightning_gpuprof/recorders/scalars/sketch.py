"""A tensor of any size in a few numbers, by which two of them can be held against each other.

Every value gets a fixed sign, + or - as by chance, and is added to one of eight sums. The sums of a
difference are the differences of the sums, and their squares add up to its squared length, on
average over the signs: so the sums of two tensors, recorded in two runs, tell how far apart the
tensors lay, however small that is beside the tensors themselves. Of a mean that would be lost
where values cancel out.
"""

import torch
from torch import Tensor

SUMS = 8
"""One standard deviation of the distance is then a quarter of it."""
COLUMNS = 1 + SUMS
_MOST_AT_ONCE = 1 << 20
_PRIME, _FACTOR = 2_147_483_647, 48_271
_SIGNS: dict[torch.device, Tensor] = {}
"""As many as the largest tensor on a device has needed so far."""


def columns_of(name: str) -> list[str]:
    """Return the names under which a tensor's numbers are kept step by step.

    >>> len(columns_of("logits")) == COLUMNS
    True
    """
    return [f"{name}\0{column}" for column in range(COLUMNS)]


def sketch(tensor: Tensor) -> Tensor:
    """Return a tensor's norm and its signed sums, shape `(COLUMNS,)`, without a host sync.

    The same values in the same order give the same numbers in every process and on every device,
    within the rounding of their sums. Takes about the tensor's memory for as long as it runs.

    Raises:
        TypeError: The tensor is on the meta device.

    >>> one = torch.arange(100.0)
    >>> float(sketch(one)[0]) == float(one.norm())
    True
    >>> torch.equal(sketch(2 * one), 2 * sketch(one))
    True
    """
    if tensor.device.type == "meta":
        raise TypeError("it is on the meta device and has no values.")
    with torch.no_grad():
        flat = tensor.detach()
        flat = torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat
        flat = flat.reshape(-1)
        flat = flat if flat.dtype == torch.float64 else flat.float()
        signed = flat * _signs(len(flat), flat.device)
        rows = -(-len(flat) // SUMS)
        padded = torch.nn.functional.pad(signed, (0, rows * SUMS - len(flat)))
        norm = torch.linalg.vector_norm(flat).reshape(1)
        return torch.cat([norm, padded.view(rows, SUMS).sum(0)])


def _signs(count: int, device: torch.device) -> Tensor:
    known = _SIGNS.get(device)
    if known is None or len(known) < count:
        starts = range(0, count, _MOST_AT_ONCE)
        parts = [_make_signs(at, min(count, at + _MOST_AT_ONCE), device) for at in starts]
        known = _SIGNS[device] = torch.cat(parts or [torch.ones(0, device=device)])
    return known[:count]


def _make_signs(first: int, last: int, device: torch.device) -> Tensor:
    """Return the signs of some places: a hash of the place, as no two devices draw alike."""
    mixed = torch.arange(first + 1, last + 1, device=device)
    for _ in range(3):
        mixed = (mixed ^ (mixed >> 13)) * _FACTOR % _PRIME
    return ((mixed >> 9) & 1).to(torch.int8) * 2 - 1
