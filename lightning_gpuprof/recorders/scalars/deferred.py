"""Sums and means that stay on the device: drop-in cures for `total += loss.item()`."""

from collections.abc import Iterator

import torch
from torch import Tensor

from lightning_gpuprof.recorders.scalars.scalar_log import Scalar, check_scalar, exact_dtype
from lightning_gpuprof.recorders.scalars.transfer import Pending, to_host


class DeferredSum:
    """A running sum that is kept on the device until it is asked for.

    In place of `total += loss.item()` write `total += loss`. Values are added in float64, in
    order, so the result is bit for bit what the sum of the `.item()` values would have been
    (on devices without float64, such as MPS, it is summed in float32). Nothing is written in
    place, so a sum is safe under `no_grad`, in inference mode and inside `torch.compile`,
    where it is spelled `total.add(loss)`: dynamo cannot trace `+=` on an object.

    Args:
        name: Says which sum it is in an error.

    >>> total = DeferredSum()
    >>> total += torch.tensor(0.5)
    >>> total += torch.tensor(0.25)
    >>> total.result()
    0.75
    """

    def __init__(self, name: str = "value") -> None:
        self.name = name
        self._total: Tensor | float = 0.0

    def add(self, value: Scalar) -> None:
        """Add one value.

        Raises:
            TypeError: The value is complex.
            ValueError: The tensor holds more or less than one value.
        """
        self._total = self._total + _exact(self.name, value)

    def __iadd__(self, value: Scalar) -> "DeferredSum":
        """Add one value: `total += loss`."""
        self.add(value)
        return self

    def result(self) -> float:
        """Return the sum as a number; waits for the device."""
        return start_copy({self.name: self._total}).result()[self.name]

    def reset(self) -> None:
        """Begin again at zero."""
        self._total = 0.0


class DeferredMean:
    """A running mean that is kept on the device until it is asked for.

    Args:
        name: What it is called in errors.

    >>> mean = DeferredMean()
    >>> mean.update(torch.tensor(1.0)); mean.update(torch.tensor(4.0), weight=2)
    >>> mean.result()
    3.0
    """

    def __init__(self, name: str = "value") -> None:
        self.name = name
        self._total: Tensor | float = 0.0
        self._weight: Tensor | float = 0.0

    def update(self, value: Scalar, *, weight: Scalar = 1) -> None:
        """Add one value with its weight, for example the batch size.

        Raises:
            TypeError: The value is complex.
            ValueError: The tensor holds more or less than one value.
        """
        exact_weight = _exact(f"{self.name} weight", weight)
        self._total = self._total + _exact(self.name, value) * exact_weight
        self._weight = self._weight + exact_weight

    def result(self) -> float | None:
        """Return the mean, or None before the first value; waits for the device."""
        sums = start_copy({"total": self._total, "weight": self._weight}).result()
        return sums["total"] / sums["weight"] if sums["weight"] else None

    def reset(self) -> None:
        """Begin again without a value."""
        self._total = 0.0
        self._weight = 0.0


class PendingScalars:
    """Numbers on their way to the host, as `start_copy` returned them."""

    def __init__(self, host: dict[str, float], parts: list[tuple[list[str], Pending]]) -> None:
        self._host = host
        self._parts = parts

    def ready(self) -> bool:
        """Tell whether all values have arrived; never waits."""
        return all(pending.ready() for _, pending in self._parts)

    def result(self) -> dict[str, float]:
        """Return the numbers by name; waits for what has not arrived."""
        found = dict(self._host)
        for names, pending in self._parts:
            found.update(zip(names, map(float, pending.result().tolist()), strict=True))
        return found


class DeferredScalars:
    """A dict of sums that stay on the device; all are read with one copy.

    In place of `acc["kl"] += kl.item()` write `acc["kl"] += kl`, also inside `torch.compile`.
    A name is made on first use and begins at zero.

    Args:
        *names: Names to begin with.

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
        """Set a sum, as `acc[name] += value` does.

        Raises:
            TypeError: The value is complex.
            ValueError: The tensor holds more or less than one value.
        """
        self._totals[name] = _exact(name, value, copy=True)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._totals)

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._totals)

    def start_copy(self) -> PendingScalars:
        """Queue one copy of the present sums per device, to be read later.

        Read at the next window's end, it costs no wait at all.
        """
        return start_copy(self._totals)

    def result(self) -> dict[str, float]:
        """Return all sums as numbers, read with one copy; waits for the device."""
        return self.start_copy().result()

    def reset(self) -> None:
        """Begin all sums again at zero; the names stay."""
        self._totals = dict.fromkeys(self._totals, 0.0)


def start_copy(totals: dict[str, Tensor | float]) -> PendingScalars:
    """Queue one copy of the tensors among the values per device and type."""
    by_bank: dict[tuple[torch.device, torch.dtype], list[str]] = {}
    tensors = {name: total for name, total in totals.items() if isinstance(total, Tensor)}
    for name, total in tensors.items():
        by_bank.setdefault((total.device, total.dtype), []).append(name)
    parts = [
        (names, to_host(torch.stack([tensors[name] for name in names])))
        for names in by_bank.values()
    ]
    # Tensors hold a place here too, so that the names keep their order.
    host = {name: 0.0 if name in tensors else float(total) for name, total in totals.items()}
    return PendingScalars(host, parts)


def _exact(name: str, value: Scalar, *, copy: bool = False) -> Tensor | float:
    """Return the value as a 0-d tensor without a graph, wide enough to add to exactly."""
    check_scalar(name, value)
    if not isinstance(value, Tensor):
        return float(value)
    return value.detach().reshape(()).to(exact_dtype(value), copy=copy)
