"""Where a training step begins: at the fetch of its batch, for which Lightning has no hook."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.fetching import BeforeFetch
from lightning_gpuprof.adapters.lightning import Callback, fetches_inside
from lightning_gpuprof.session.hooks import add_hook, called_by_trainer, drop_hook

_NEVER = 1 << 62
_FAR = 16
"""Batches to a border from which on the loop is left alone for half of them."""


class StepBorders:
    """Calls back where a training step begins, for the length of a fit.

    `on_train_batch_start` comes after the fetch, and `on_train_batch_end` before the loggers,
    validation and checkpoints of its step. Between the two, `BeforeFetch` is called, and Lightning
    counts the batches that have run: where that number has grown, a step begins. (An iterable
    without a length may be fetched from once more when it is at its end.) While the next border is
    far away, Lightning's method is put back, so that these steps pay nothing. Steps that fetch for
    themselves, by `dataloader_iter`, begin at `on_train_batch_start`.

    Args:
        trainer: In `on_train_start`.
        callback: Whose part this is.
        on_border: Called before a step's fetch with its number, from 0, but not while asleep.
    """

    def __init__(
        self, trainer: Any, callback: Callback, on_border: Callable[[int], object]
    ) -> None:
        self._hook = BeforeFetch(trainer)
        self._progress = trainer.fit_loop.epoch_loop.batch_progress
        self._on_border = on_border
        self._first = self._due = self._completed
        self._original: Any = None
        self._wanted = self._entered = self._called_back = False
        self._mine = self._before_fetch
        self._host = called_by_trainer(trainer, callback)
        if fetches_inside(trainer.lightning_module) or not self._hook.found:
            add_hook(self._host, "on_train_batch_start", self._reach)
        self._enter()

    @property
    def _completed(self) -> int:
        return int(self._progress.total.completed)

    def sleep_until(self, step: int | None) -> None:
        """Pass over the steps before this one; None for all of them."""
        self._due = _NEVER if step is None else self._first + step
        self._rest()

    def wake(self) -> None:
        """Pass over no more steps."""
        self._wait_no_more()
        self._enter()
        completed = self._completed
        if self._due > completed + 1:
            self._due = completed

    def remove(self) -> None:
        """Put Lightning's method back."""
        self._due = _NEVER
        drop_hook(self._host, "on_train_batch_start", self._reach)
        self._wait_no_more()
        self._leave()

    def _rest(self, *_: Any) -> None:
        """Leave the loop alone while no border is near.

        It is come back to after half of the batches: the loop alone counts those that are skipped.
        """
        self._wait_no_more()
        left = self._due - self._completed
        if left < _FAR:
            self._enter()
            return
        self._leave()
        if self._due < _NEVER:
            self._called_back = True
            add_hook(self._host, "on_train_batch_end", self._rest, every=left // 2)

    def _wait_no_more(self) -> None:
        if self._called_back:
            self._called_back = False
            drop_hook(self._host, "on_train_batch_end", self._rest)

    def _enter(self) -> None:
        self._wanted = True
        if not self._entered and self._hook.found:
            self._entered = True
            self._original = self._hook.get()
            self._hook.put(self._mine)

    def _leave(self) -> None:
        """Put Lightning's method back, unless somebody came on top: that one calls on.

        Others below that wanted to leave meanwhile do so with the one on top.
        """
        self._wanted = False
        if self._entered and self._hook.get() is self._mine:
            below, original = self, self._mine
            while isinstance(below, StepBorders) and not below._wanted:
                below._entered, original = False, below._original
                below = getattr(original, "__self__", None)  # type: ignore[assignment] # anyone's
            self._hook.put(original)

    def _before_fetch(self) -> None:
        if self._progress.total.completed >= self._due:
            self._reach()
        self._original()

    def _reach(self, *_: Any) -> None:
        completed = self._completed
        if completed >= self._due:
            self._due = completed + 1
            self._on_border(completed - self._first)
