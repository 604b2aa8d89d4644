"""Where a training step begins: at the fetch of its batch, which no hook of Lightning's marks."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.callbacks._lightning import Callback
from lightning_gpuprof.callbacks.dispatch import add_hook, called_by_trainer, drop_hook
from lightning_gpuprof.callbacks.tap.tapping import fetches_inside

_NEVER = 1 << 62


class StepBorders:
    """Calls back where a training step begins, for the length of a fit.

    `on_train_batch_start` comes after the fetch, and `on_train_batch_end` before the loggers,
    validation and checkpoints of its step. Lightning calls its epoch loop's `_on_before_fetch`
    between the two, and counts the batches that have run: where that number has grown, a step
    begins. (An iterable without a length may be fetched from once more when it is at its end.)

    Where nothing more is to come Lightning's method is put back, so that later steps pay nothing.
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
        self._entered = False
        self._mine = self._before_fetch
        self._fit_loop = trainer.fit_loop
        self._host = called_by_trainer(trainer, callback)
        if fetches_inside(trainer.lightning_module):
            add_hook(self._host, "on_train_batch_start", self._reach)
        self._enter()

    def sleep_until(self, step: int | None) -> None:
        """Pass over the steps before this one; None for all of them."""
        self._due = _NEVER if step is None else self._first + step
        if step is None:
            self._leave()

    def wake(self) -> None:
        """Pass over no more steps."""
        self._enter()
        completed = self._loop.batch_progress.total.completed
        if self._due > completed + 1:
            self._due = completed

    def remove(self) -> None:
        """Put Lightning's method back."""
        self._due = _NEVER
        drop_hook(self._host, "on_train_batch_start", self._reach)
        self._leave()

    def _enter(self) -> None:
        if not self._entered:
            self._entered = True
            self._original = self._loop._on_before_fetch
            self._loop._on_before_fetch = self._mine
            self._replace_held(self._original, self._mine)

    def _leave(self) -> None:
        """Put Lightning's method back, unless somebody came on top: that one calls on."""
        if self._entered and self._loop.__dict__.get("_on_before_fetch") is self._mine:
            self._entered = False
            del self._loop._on_before_fetch
            if self._loop._on_before_fetch != self._original:  # someone was there before
                self._loop._on_before_fetch = self._original
            self._replace_held(self._mine, self._original)

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
