"""Means over an epoch of values that arrive step by step, in a form that can be resumed."""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any


class EpochMeans:
    """Adds up an epoch's values as Python floats, in step order.

    >>> means = EpochMeans()
    >>> means.begin(0)
    >>> means.add("loss", [1.0, 2.0]); means.step = 1
    >>> means.begin(1)
    ({'loss': 1.5}, 1)

    Attributes:
        epoch: The open epoch, if there is one.
        step: The step under which its means are to be logged: its last one so far.
    """

    def __init__(self) -> None:
        self.epoch: int | None = None
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self.step: int | None = None

    def begin(self, epoch: int) -> tuple[dict[str, float], int] | None:
        """Enter an epoch; where it is a new one, return what `close` does."""
        if epoch == self.epoch:
            return None
        closed = self.close()
        self.epoch = epoch
        return closed

    def add(self, name: str, values: Sequence[float]) -> None:
        """Add values of one name, in step order."""
        if values:
            # Not `sum`, which rounds otherwise than `total += value` from Python 3.12 on.
            self._sums[name] = reduce(operator.add, values, self._sums.get(name, 0.0))
            self._counts[name] = self._counts.get(name, 0) + len(values)

    def close(self) -> tuple[dict[str, float], int] | None:
        """Return the epoch's means and its last logger step, and begin without values."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        step = self.step
        self.epoch, self._sums, self._counts, self.step = None, {}, {}, None
        return (means, step) if means and step is not None else None

    def state_dict(self) -> dict[str, Any]:
        """Return the open epoch's sums."""
        return {
            "epoch": self.epoch,
            "sums": dict(self._sums),
            "counts": dict(self._counts),
            "step": self.step,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the sums of `state_dict`."""
        self.epoch = state.get("epoch")
        self._sums = dict(state.get("sums", {}))
        self._counts = dict(state.get("counts", {}))
        self.step = state.get("step")
