"""Keeps one scalar per step on the device and reads a whole window of them with one copy."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, SupportsFloat

import torch
from torch import Tensor

from lightning_gpuprof.probes.transfer import Pending, Transfer, to_host

Scalar = Tensor | float | int
_HAS_FLOAT64 = ("cpu", "cuda", "meta")


@dataclass(frozen=True)
class ScalarBatch:
    """The values of a window as numbers; `None` where a step gave none."""

    steps: list[int]
    values: dict[str, list[float | None]]


class ScalarLog:
    """Records named scalars step by step without a host sync.

    Each value is written into a buffer on its own device, so a static output of a CUDA graph
    may be overwritten afterwards and no autograd graph is kept alive. The buffer is float64,
    which holds every value of the narrower types exactly: what comes out is bit for bit what
    `float(value)` would have given at that step, NaN and infinities included. Devices without
    float64 (MPS) keep floats as float32 and integers as int64, as exact.

    Args:
        names: The scalars to keep.
        window: Steps per buffer; `add` closes a window that is full.
        transfer: Queues a copy to the host; tests pass a fake.

    >>> log = ScalarLog(["loss"], window=2)
    >>> log.add(0, {"loss": torch.tensor(0.5)}); log.add(1, {"loss": torch.tensor(0.25)})
    >>> log.arrived()
    [ScalarBatch(steps=[0, 1], values={'loss': [0.5, 0.25]})]
    """

    def __init__(self, names: Sequence[str], *, window: int, transfer: Transfer = to_host) -> None:
        self._names = list(names)
        self._window = window
        self._transfer = transfer
        self._banks: dict[tuple[torch.device, torch.dtype], _Bank] = {}
        self._rows: dict[str, _Row] = {}
        self._steps: list[int] = []
        self._pending: deque[_PendingBatch] = deque()

    def __len__(self) -> int:
        """Return the number of steps in the open window."""
        return len(self._steps)

    def add(self, step: int, values: Mapping[str, Scalar | None]) -> None:
        """Keep a step's values; names that are missing or None stay absent.

        Raises:
            TypeError: A value is no real number.
            ValueError: A tensor holds more or less than one value.
        """
        index = len(self._steps)
        self._steps.append(step)
        for name in self._names:
            value = values.get(name)
            if value is not None:
                self._write(name, index, value)
        if len(self._steps) >= self._window:
            self.close_window()

    def _write(self, name: str, index: int, value: Scalar) -> None:
        # This runs in every step. What was checked once holds for the next value of the same
        # kind; 0-d tensors of one device and type are nearly all there are.
        row = self._rows.get(name)
        if not isinstance(value, Tensor) or value.dim():
            value = _as_scalar(name, value)
        if row is None or value.dtype is not row.dtype or value.device != row.device:
            check_scalar(name, value)
            bank = self._bank(value)
            row = self._rows[name] = _Row(value.dtype, value.device, bank.cells[name], bank)
        if value.requires_grad:
            value = value.detach()
        row.cells[index].copy_(value)
        row.bank.written[name].append(index)

    def close_window(self) -> None:
        """Queue the copy of the open window; does nothing where it is empty."""
        if not self._steps:
            return
        parts = [bank.close(self._transfer) for bank in self._banks.values()]
        self._pending.append(_PendingBatch(self._steps, self._names, parts))
        self._steps = []

    def arrived(self) -> list[ScalarBatch]:
        """Return the windows whose copy is complete, oldest first; never waits."""
        batches = []
        while self._pending and self._pending[0].ready():
            batches.append(self._pending.popleft().result())
        return batches

    def drain(self) -> list[ScalarBatch]:
        """Close the open window and return all that is left; waits for the device."""
        self.close_window()
        batches = [pending.result() for pending in self._pending]
        self._pending.clear()
        return batches

    def _bank(self, value: Tensor) -> "_Bank":
        key = (value.device, exact_dtype(value))
        bank = self._banks.get(key)
        if bank is None:
            bank = self._banks[key] = _Bank(self._names, self._window, *key)
        return bank


def check_scalar(name: str, value: object) -> None:
    """Refuse what `float()` could not turn into one number.

    Raises:
        TypeError: It is complex, or neither a tensor nor a number.
        ValueError: It holds more or less than one value.
    """
    if not isinstance(value, Tensor):
        # SupportsFloat covers Python's and numpy's real numbers and leaves complex ones out.
        if not isinstance(value, SupportsFloat) or isinstance(value, (str, bytes)):
            raise TypeError(
                f"{name!r} is {value!r:.80}, neither a number nor a tensor with one value."
            )
        return
    if value.is_complex():
        raise TypeError(
            f"{name!r} is complex ({value.dtype}), which is no single number. "
            "Pass its .abs(), .real or .imag."
        )
    if value.numel() != 1:
        raise ValueError(
            f"{name!r} has shape {tuple(value.shape)}: only one value can be kept per step. "
            "Reduce it first, for example with .mean()."
        )


def exact_dtype(value: Tensor) -> torch.dtype:
    """Return a type that holds the tensor's values exactly on its device."""
    if value.device.type in _HAS_FLOAT64:
        return torch.float64
    return torch.float32 if value.is_floating_point() else torch.int64


def _as_scalar(name: str, value: Scalar) -> Tensor:
    check_scalar(name, value)
    if isinstance(value, Tensor):
        return value.reshape(())
    return torch.tensor(float(value), dtype=torch.float64)


class _Row(NamedTuple):
    """Where a name's values go, and the kind of value that may go there unchecked."""

    dtype: torch.dtype
    device: torch.device
    cells: tuple[Tensor, ...]
    bank: "_Bank"


class _Bank:
    """The open window's values of one device, a row per name."""

    def __init__(
        self, names: list[str], window: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._names = names
        # An ordinary tensor even when first met inside inference_mode: those cannot be
        # written to once it is left.
        with torch.inference_mode(False):
            self._values = torch.zeros((len(names), window), device=device, dtype=dtype)
            # Indexing a tensor costs more than the copy itself: one view per cell, made once.
            self.cells = {name: row.unbind() for name, row in zip(names, self._values, strict=True)}
        self.written: dict[str, list[int]] = {name: [] for name in names}

    def close(self, transfer: Transfer) -> "tuple[dict[str, list[int]], list[str], Pending]":
        written = self.written
        self.written = {name: [] for name in self._names}
        return written, self._names, transfer(self._values)


class _PendingBatch:
    """A closed window on its way to the host."""

    def __init__(
        self,
        steps: list[int],
        names: list[str],
        parts: list[tuple[dict[str, list[int]], list[str], Pending]],
    ) -> None:
        self._steps = steps
        self._names = names
        self._parts = parts

    def ready(self) -> bool:
        return all(pending.ready() for _, _, pending in self._parts)

    def result(self) -> ScalarBatch:
        values: dict[str, list[float | None]] = {
            name: [None] * len(self._steps) for name in self._names
        }
        for written, names, pending in self._parts:
            rows = pending.result().tolist()
            for name, row in zip(names, rows, strict=True):
                for index in written[name]:
                    values[name][index] = float(row[index])
        return ScalarBatch(steps=self._steps, values=values)
