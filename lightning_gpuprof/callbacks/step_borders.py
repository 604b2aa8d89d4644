"""Where a training step begins: at the fetch of its batch, which no hook of Lightning's marks."""

from collections.abc import Callable
from typing import Any


class StepBorders:
    """Calls back at each training step's begin, for the length of a fit.

    `on_train_batch_start` comes after the fetch, and `on_train_batch_end` before the loggers,
    validation and checkpoints of its step. Lightning calls its epoch loop's `_on_before_fetch`
    between the two; where a version does not, `reach` in `on_train_batch_start` is the border.

    Args:
        trainer: In `on_train_start`.
        on_border: Called once per step, before its fetch.
    """

    def __init__(self, trainer: Any, on_border: Callable[[], object]) -> None:
        self._loop = trainer.fit_loop.epoch_loop
        self._on_border = on_border
        self._original: Any = getattr(self._loop, "_on_before_fetch", None)
        self._between = True
        self._mine = self._before_fetch
        if self._original is not None:
            self._loop._on_before_fetch = self._mine

    def reach(self) -> None:
        """A step begins here, unless it has begun already."""
        if self._between:
            self._between = False
            self._on_border()

    def end_batch(self) -> None:
        """The step's batch has run: what is fetched next is the next step's.

        An iterable without a length may be fetched from once more when it is at its end.
        """
        self._between = True

    def remove(self) -> None:
        """Put Lightning's method back."""
        if self._loop.__dict__.get("_on_before_fetch") is self._mine:
            del self._loop._on_before_fetch
            if self._loop._on_before_fetch != self._original:  # someone was there before
                self._loop._on_before_fetch = self._original

    def _before_fetch(self) -> None:
        self.reach()
        if self._original is not None:
            self._original()
