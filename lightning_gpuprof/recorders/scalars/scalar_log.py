"""Keeps scalars of every step on the device, and copies a whole window of them to the host."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

from torch import Tensor

from lightning_gpuprof.recorders.scalars.transfer import (
    HostCopy,
    Numbers,
    RankMeans,
    Transfer,
    Value,
)

Scalar = Tensor | float | int
_NO_VALUES: Mapping[str, Any] = {}


@dataclass(frozen=True)
class ScalarBatch:
    """The values of a window as numbers."""

    steps: list[Any]
    """The steps as they were passed to `add`."""
    values: dict[str, list[float | None]]
    """For each name a value per step, or None if the step has no value of that name."""


class ScalarLog:
    """Records named scalars step by step without a host sync.

    Every value is copied on its own device. Therefore a static output of a CUDA graph may be
    overwritten afterwards, and no autograd graph stays alive. At the end of a window the values are
    stacked on the device as float64, which holds every value of the narrower types exactly. The
    resulting numbers are bit for bit what `float(value)` would have returned in that step,
    including NaN and infinities. Devices without float64 (MPS) use float32 for floats and int64 for
    integers, which is exact too.

    Args:
        names: The names of the scalars.
        transfer: Copies a tensor to the host.
        send: Sends the values of a window in another way, the values of the first name first. If it
            returns None, the window is copied by `transfer`.
        refuse: Receives the name of every value that is not a single number, with the error; the
            value is left out. By default `add` raises the error.

    Attributes:
        steps: The steps of the open window, as they were passed to `add`.
        first: The values of the first name in the open window. If there is only a single name, a
            caller may append a tensor and its step directly. The tensor must have no autograd
            graph, and nobody may write to it.

    >>> import torch
    >>> log = ScalarLog(["loss"])
    >>> log.add(0, {"loss": torch.tensor(0.5)}); log.add(1, {"loss": torch.tensor(0.25)})
    >>> log.close_window(); log.arrived()
    [ScalarBatch(steps=[0, 1], values={'loss': [0.5, 0.25]})]
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        transfer: Transfer = HostCopy,
        send: Callable[[list[Value]], RankMeans | None] | None = None,
        refuse: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._names = list(names)
        self._transfer = transfer
        self._send = send
        self._refuse = refuse
        self._begin_window()
        self._pending: deque[tuple[list[Any], Numbers | RankMeans]] = deque()

    @property
    def has_pending(self) -> bool:
        """Whether there are closed windows that `arrived` or `drain` has not returned yet."""
        return bool(self._pending)

    def add(
        self,
        step: Any,
        values: Mapping[str, Scalar | None],
        private: Mapping[str, Tensor] = _NO_VALUES,
    ) -> None:
        """Add the values of a step. A name that is missing or None has no value in this step.

        `private` are values that need no copy, since they have no autograd graph and nobody else
        writes to them. They take precedence over `values`.
        """
        for name, column in self._columns.items():
            recorded: Value = private.get(name)
            if recorded.__class__ is not Tensor:  # None, or a subclass of Tensor
                value = values.get(name) if recorded is None else recorded
                if value is not None:
                    recorded = self._copy_of(name, value)
            column.append(recorded)
        self.steps.append(step)

    def _copy_of(self, name: str, value: Scalar) -> Value:
        if value.__class__ is not Tensor or value.dim() or value.is_complex():
            try:
                check_scalar(name, value)
                value = _local(name, value)
            except (TypeError, ValueError) as error:
                if self._refuse is None:
                    raise
                self._refuse(name, error)
                return None
        if not isinstance(value, Tensor):
            return float(value)
        value = value.detach().clone()
        return value.reshape(()) if value.dim() else value

    def close_window(self) -> None:
        """Queue the copy of the open window and begin a new one, unless the window is empty."""
        if self._pending and self._pending[-1][0] is self.steps:
            # Ctrl-C has interrupted the previous call before it could begin a new window.
            self._begin_window()
        if not self.steps:
            return
        # If Ctrl-C interrupts `add`, a column has a value for a step that is not in `steps`.
        count = len(self.steps)
        values = [value for column in self._columns.values() for value in column[:count]]
        sent = self._send(values) if self._send is not None else None
        self._pending.append((self.steps, sent or Numbers(values, self._transfer)))
        self._begin_window()

    def _begin_window(self) -> None:
        self.steps: list[Any] = []
        self._columns: dict[str, list[Value]] = {name: [] for name in self._names}
        self.first = self._columns[self._names[0]]

    def arrived(self) -> list[ScalarBatch]:
        """Return the windows whose copies are complete, oldest first. Never waits."""
        batches = []
        while self._pending and self._pending[0][1].ready():
            batches.append(self._batch(*self._pending.popleft()))
        return batches

    def drain(self) -> list[ScalarBatch]:
        """Close the open window and return all remaining windows. Waits for the device."""
        self.close_window()
        batches = [self._batch(*pending) for pending in self._pending]
        self._pending.clear()
        return batches

    def _batch(self, steps: list[Any], window: Numbers | RankMeans) -> ScalarBatch:
        values = window.result()
        count = len(steps)
        columns = {
            name: values[index * count : (index + 1) * count]
            for index, name in enumerate(self._names)
        }
        return ScalarBatch(steps, columns)


def check_scalar(name: str, value: object) -> None:
    """Raise TypeError or ValueError for a value that is not a single real number."""
    if not isinstance(value, Tensor):
        # SupportsFloat includes the real numbers of Python and numpy, but not complex numbers.
        if not isinstance(value, SupportsFloat) or isinstance(value, (str, bytes)):
            raise TypeError(
                f"{name!r} is {value!r:.80}, which is neither a number nor a tensor with a single "
                "value."
            )
        return
    if value.is_complex():
        raise TypeError(
            f"{name!r} is complex ({value.dtype}), which is not a single real number. "
            "Pass its .abs(), .real or .imag."
        )
    if value.numel() != 1:
        raise ValueError(
            f"{name!r} has shape {tuple(value.shape)}, but a step can only record a single value. "
            "Reduce it first, for example with .mean()."
        )


def _local(name: str, value: Any) -> Any:
    """Return this rank's copy of a replicated DTensor. Any other value is returned as it is."""
    placements = getattr(value, "placements", None)
    if placements is None:
        return value
    if all(placement.is_replicate() for placement in placements):
        return value.detach().to_local()
    raise ValueError(
        f"{name!r} is a DTensor of which every rank holds a part {tuple(placements)}, so that its "
        "value would need communication in every step. Return its .full_tensor() if you want that."
    )
