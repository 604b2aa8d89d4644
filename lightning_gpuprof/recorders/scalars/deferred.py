"""Sums that stay on the device: in place of `total += loss.item()`."""

from collections.abc import Iterator

from torch import Tensor

from lightning_gpuprof.recorders.scalars.scalar_log import Scalar, check_scalar
from lightning_gpuprof.recorders.scalars.transfer import Numbers, exact_dtype


class DeferredScalars:
    """A dict of sums that stay on the device; all are read with one copy.

    In place of `acc["kl"] += kl.item()` write `acc["kl"] += kl`, also inside `torch.compile`.
    A name is made on first use and begins at zero. Values are added in float64, in order: the
    result is bit for bit what the sum of the `.item()` values would have been (devices without
    float64, such as MPS, add in float32).

    Args:
        *names: Names to begin with.

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
        """Return a copy of the present sum on its device, or 0.0 for a new name."""
        total = self._totals.get(name, 0.0)
        # A copy, because `+=` writes into what it is given, and under torch.compile equal
        # values of one step may share their memory.
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
        """Return how many names there are."""
        return len(self._totals)

    def result(self) -> dict[str, float]:
        """Return all sums as numbers, read with one copy; waits for the device."""
        return dict(zip(self._totals, Numbers(list(self._totals.values())).result(), strict=True))

    def reset(self) -> None:
        """Begin all sums again at zero; the names stay."""
        self._totals = dict.fromkeys(self._totals, 0.0)
