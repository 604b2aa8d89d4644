"""Calls a function where a step begins: at the fetch of its batch, where Lightning has no hook."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.callback_hooks import BATCH_START
from lightning_gpuprof.adapters.lightning import Callback, batch_loop
from lightning_gpuprof.runtime.context import StepSource
from lightning_gpuprof.runtime.hooks import dispatcher_in

_NEVER = 1 << 62
_MIN_PAUSE = 16
"""If at least this many steps are skipped, listening stops for half of them."""


class StepCalls:
    """Calls a function at the beginning of every training step of a fit.

    With a `source`, which is the timing of the fit, a step begins right before its batch is
    fetched. Without a source it begins at `on_train_batch_start`, so that the fetch belongs to the
    step before.

    Args:
        trainer: The Trainer.
        callback: The callback, or part of a callback, that the calls are for.
        on_step: Receives the number of the step, from 0.
        source: The timing of the fit, if there is one.
    """

    def __init__(
        self,
        trainer: Any,
        callback: Callback,
        on_step: Callable[[int], object],
        source: StepSource | None = None,
    ) -> None:
        self._progress = batch_loop(trainer).batch_progress
        self._hooks = dispatcher_in(trainer, callback)
        self._on_step, self._source = on_step, source
        self._first = self._due = self._completed
        self._is_resuming_later = False
        self._stop_listening: Callable[[], object] | None = None
        self._listen()

    @property
    def _completed(self) -> int:
        return int(self._progress.total.completed)

    def sleep_until(self, step: int | None) -> None:
        """Skip the steps before this step, or all steps (None)."""
        self._due = _NEVER if step is None else self._first + step
        self._pause()

    def wake(self) -> None:
        """Skip no more steps."""
        self._cancel_resuming()
        self._listen()
        self._due = min(self._due, self._completed)

    def remove(self) -> None:
        """End the calls."""
        self._due = _NEVER
        self._pause()

    def step_begins(self, *_: Any) -> None:
        """Call the function, unless the step is skipped."""
        completed = self._completed
        if completed >= self._due:
            self._due = completed + 1
            self._on_step(completed - self._first)

    def timing_ends(self) -> None:
        """Go on with the hook `on_train_batch_start`, since the timing has ended before the fit."""
        self._leave()
        self._listen()

    def _pause(self) -> None:
        """Stop listening until shortly before the next step that is not skipped."""
        self._cancel_resuming()
        left = self._due - self._completed
        if left < _MIN_PAUSE:
            self._listen()
            return
        self._leave()
        if self._due < _NEVER:
            self._is_resuming_later = True
            self._hooks.periodic.add(self._pause, left // 2)

    def _cancel_resuming(self) -> None:
        if self._is_resuming_later:
            self._is_resuming_later = False
            self._hooks.periodic.drop(self._pause)

    def _listen(self) -> None:
        if self._stop_listening is not None:
            return
        source = self._source
        if source is None or not source.running:
            self._hooks.add(BATCH_START, self.step_begins)
            self._stop_listening = lambda: self._hooks.drop(BATCH_START, self.step_begins)
        else:
            source.listeners.append(self)
            self._stop_listening = lambda: source.listeners.remove(self)

    def _leave(self) -> None:
        stop_listening, self._stop_listening = self._stop_listening, None
        if stop_listening is not None:
            stop_listening()
