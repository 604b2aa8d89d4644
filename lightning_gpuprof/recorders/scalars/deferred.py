"""Sums that stay on the device, in the place of `total += loss.item()`."""

from collections.abc import Iterator

from torch import Tensor

from lightning_gpuprof.recorders.scalars.scalar_log import Scalar, check_scalar
from lightning_gpuprof.recorders.scalars.transfer import Numbers, exact_dtype


class DeferredScalars:
    """A dict of sums that stay on the device and are read together, with a single copy.

    Write `acc["kl"] += kl` in the place of `acc["kl"] += kl.item()`, also inside `torch.compile`. A
    name is created on its first use, with the sum zero. Values are added in order and in float64,
    so that the result equals the sum of the `.item()` values bit for bit. Devices without float64,
    such as MPS, add in float32.

    Args:
        *names: Names that exist from the beginning.

    >>> import torch
    >>> acc = DeferredScalars()
    >>> for kl in (torch.tensor(0.5), torch.tensor(0.25)):
    ...     acc["kl"] += kl
    >>> acc.result()
    {'kl': 0.75}
    """

    def __init__(self, *names: str) -> None:
        self._totals: dict[str, Tensor | float] = dict.fromkeys(names, 0.0)

    def __getitem__(self, name: str) -> Tensor | float:
        """Return a copy of the current sum on its device, or 0.0 for a new name."""
        total = self._totals.get(name, 0.0)
        # A copy, because `+=` writes into the returned tensor, and under torch.compile equal values
        # of a step may share their memory.
        return total.clone() if isinstance(total, Tensor) else total

    def __setitem__(self, name: str, value: Scalar) -> None:
        """Set a sum, as `acc[name] += value` does."""
        check_scalar(name, value)
        if isinstance(value, Tensor):
            self._totals[name] = value.detach().reshape(()).to(exact_dtype(value), copy=True)
        else:
            self._totals[name] = float(value)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._totals)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._totals)

    def result(self) -> dict[str, float]:
        """Return all sums as numbers. This makes a single copy and waits for the device."""
        return dict(zip(self._totals, Numbers(list(self._totals.values())).result(), strict=True))

    def reset(self) -> None:
        """Set all sums to zero. The names remain."""
        self._totals = dict.fromkeys(self._totals, 0.0)
