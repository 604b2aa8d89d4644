"""Means over an epoch of values that arrive step by step, in a form that can be resumed."""

from typing import Any


class EpochMeans:
    """Adds up an epoch's values as Python floats, in step order.

    >>> means = EpochMeans()
    >>> means.begin(0)
    >>> means.add({"loss": 1.0}, step=0); means.add({"loss": 2.0}, step=1)
    >>> means.begin(1)
    ({'loss': 1.5}, 1)
    """

    def __init__(self) -> None:
        self.epoch: int | None = None
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._step: int | None = None

    def begin(self, epoch: int) -> tuple[dict[str, float], int] | None:
        """Enter an epoch; where it is a new one, return what `close` does."""
        if epoch == self.epoch:
            return None
        closed = self.close()
        self.epoch = epoch
        return closed

    def add(self, values: dict[str, float], step: int | None) -> None:
        """Add a step's values.

        Args:
            values: By name.
            step: The logger's step; None where the step is not logged under a number.
        """
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1
        if step is not None:
            self._step = step

    def close(self) -> tuple[dict[str, float], int] | None:
        """Return the epoch's means and its last logger step, and begin without values."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        step = self._step
        self.epoch, self._sums, self._counts, self._step = None, {}, {}, None
        return (means, step) if means and step is not None else None

    def state_dict(self) -> dict[str, Any]:
        """Return the open epoch's sums."""
        return {
            "epoch": self.epoch,
            "sums": dict(self._sums),
            "counts": dict(self._counts),
            "step": self._step,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the sums of `state_dict`."""
        self.epoch = state.get("epoch")
        self._sums = dict(state.get("sums", {}))
        self._counts = dict(state.get("counts", {}))
        self._step = state.get("step")
