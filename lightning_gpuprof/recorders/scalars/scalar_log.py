"""Keeps one scalar per step on the device and reads a whole window of them with one copy."""

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
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class ScalarBatch:
    """The values of a window as numbers; `None` where a step gave none."""

    steps: list[Any]
    """As `add` was given them."""
    values: dict[str, list[float | None]]


class ScalarLog:
    """Records named scalars step by step without a host sync.

    Each value is copied on its own device, so a static output of a CUDA graph may be overwritten
    afterwards and no autograd graph is kept alive. At a window's end they are put together there
    as float64, which holds every value of the narrower types exactly: what comes out is bit for
    bit what `float(value)` would have given at that step, NaN and infinities included. Devices
    without float64 (MPS) keep floats as float32 and integers as int64, as exact.

    Args:
        send: Sends a window in its own way, the values of the first name first; where it returns
            None the window is copied.
        refuse: Told of each value that is no single number, which is then left out. By default
            `add` raises.

    Attributes:
        steps: Of the open window, as `add` was given them.
        first: Values of the first name in it. Where that is the only name, a caller may append a
            tensor and its step without `add`: without a graph, and written to by nobody else.

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
    def on_their_way(self) -> bool:
        """Whether windows were sent that nobody has taken since."""
        return bool(self._pending)

    def add(
        self,
        step: Any,
        values: Mapping[str, Scalar | None],
        private: Mapping[str, Tensor] = _NONE,
    ) -> None:
        """Keep a step's values; names that are missing or None stay absent.

        `private` are tensors without a graph that nobody else writes to; they need no copy and come
        before `values`.
        """
        for name, column in self._columns.items():
            kept: Value = private.get(name)
            if kept.__class__ is not Tensor:  # none, or of a subclass
                value = values.get(name) if kept is None else kept
                if value is not None:
                    kept = self._copied(name, value)
            column.append(kept)
        self.steps.append(step)

    def _copied(self, name: str, value: Scalar) -> Value:
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
        """Queue the copy of the open window; does nothing where it is empty."""
        if self._pending and self._pending[-1][0] is self.steps:
            self._begin_window()  # Ctrl-C came before
        if not self.steps:
            return
        # A column may be longer by a step that Ctrl-C tore.
        values = [one for column in self._columns.values() for one in column[: len(self.steps)]]
        sent = self._send(values) if self._send is not None else None
        self._pending.append((self.steps, sent or Numbers(values, self._transfer)))
        self._begin_window()

    def _begin_window(self) -> None:
        self.steps: list[Any] = []
        self._columns: dict[str, list[Value]] = {name: [] for name in self._names}
        self.first = self._columns[self._names[0]]

    def arrived(self) -> list[ScalarBatch]:
        """Return the windows whose copy is complete, oldest first; never waits."""
        batches = []
        while self._pending and self._pending[0][1].ready():
            batches.append(self._batch(*self._pending.popleft()))
        return batches

    def drain(self) -> list[ScalarBatch]:
        """Close the open window and return all that is left; waits for the device."""
        self.close_window()
        batches = [self._batch(*pending) for pending in self._pending]
        self._pending.clear()
        return batches

    def _batch(self, steps: list[Any], window: Numbers | RankMeans) -> ScalarBatch:
        values, count = window.result(), len(steps)
        columns = {
            name: values[at * count : (at + 1) * count] for at, name in enumerate(self._names)
        }
        return ScalarBatch(steps, columns)


def check_scalar(name: str, value: object) -> None:
    """Refuse what `float()` could not turn into one number."""
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


def _local(name: str, value: Any) -> Any:
    """Return this rank's copy of a distributed tensor's value; what is none comes back as it is."""
    placements = getattr(value, "placements", None)
    if placements is None:
        return value
    if all(one.is_replicate() for one in placements):
        return value.detach().to_local()
    raise ValueError(
        f"{name!r} is a DTensor of which each rank holds a part {tuple(placements)}: its value "
        "takes communication in every step. Return .full_tensor() where that is wanted."
    )
