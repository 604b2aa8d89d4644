"""Where a training step begins: at the fetch of its batch, which no hook of Lightning's marks."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.lightning import Callback, fetches_inside
from lightning_gpuprof.session.hooks import add_hook, called_by_trainer, drop_hook

_NEVER = 1 << 62
_FAR = 16
"""Batches to a border from which on the loop is left alone for half of them."""


class StepBorders:
    """Calls back where a training step begins, for the length of a fit.

    `on_train_batch_start` comes after the fetch, and `on_train_batch_end` before the loggers,
    validation and checkpoints of its step. Lightning calls its epoch loop's `_on_before_fetch`
    between the two, and counts the batches that have run: where that number has grown, a step
    begins. (An iterable without a length may be fetched from once more when it is at its end.)

    Where nothing is to come for many steps, or nothing more at all, Lightning's method is put back,
    so that these steps pay nothing.
    Where steps fetch for themselves, by `dataloader_iter`, they begin at `on_train_batch_start`.

    Args:
        trainer: In `on_train_start`.
        callback: Whose part this is.
        on_border: Called before a step's fetch with its number, from 0, but not while asleep.
    """

    def __init__(
        self, trainer: Any, callback: Callback, on_border: Callable[[int], object]
    ) -> None:
        self._loop = trainer.fit_loop.epoch_loop
        self._on_border = on_border
        self._first: int = self._loop.batch_progress.total.completed
        self._due = self._first
        self._original: Any = None
        self._wanted = self._entered = self._called_back = False
        self._mine = self._before_fetch
        self._fit_loop = trainer.fit_loop
        self._host = called_by_trainer(trainer, callback)
        if fetches_inside(trainer.lightning_module):
            add_hook(self._host, "on_train_batch_start", self._reach)
        self._enter()

    def sleep_until(self, step: int | None) -> None:
        """Pass over the steps before this one; None for all of them."""
        self._due = _NEVER if step is None else self._first + step
        self._rest()

    def wake(self) -> None:
        """Pass over no more steps."""
        self._wait_no_more()
        self._enter()
        completed = self._loop.batch_progress.total.completed
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
        left = self._due - self._loop.batch_progress.total.completed
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
        if not self._entered:
            self._entered = True
            self._original = self._loop._on_before_fetch
            self._loop._on_before_fetch = self._mine
            self._replace_held(self._original, self._mine)

    def _leave(self) -> None:
        """Put Lightning's method back, unless somebody came on top: that one calls on.

        Others below that wanted to leave meanwhile do so with the one on top.
        """
        self._wanted = False
        if self._entered and self._loop.__dict__.get("_on_before_fetch") is self._mine:
            original: Any = self._mine
            below: Any = self
            while isinstance(below, StepBorders) and not below._wanted:
                below._entered, original = False, below._original
                below = getattr(original, "__self__", None)
            del self._loop._on_before_fetch
            if self._loop._on_before_fetch != original:  # someone was there before
                self._loop._on_before_fetch = original
            self._replace_held(self._mine, original)

    def _replace_held(self, one: Any, other: Any) -> None:
        """Exchange the method where a loop that runs holds it: in what fetches its batches."""
        fetcher: Any = getattr(self._fit_loop, "_data_fetcher", None)
        if getattr(fetcher, "_start_profiler", None) == one:
            fetcher._start_profiler = other

    def _before_fetch(self) -> None:
        if self._loop.batch_progress.total.completed >= self._due:
            self._reach()
        self._original()

    def _reach(self, *_: Any) -> None:
        completed = self._loop.batch_progress.total.completed
        if completed >= self._due:
            self._due = completed + 1
            self._on_border(completed - self._first)
