"""Where a training step begins: at the fetch of its batch, for which Lightning has no hook."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.callback_hooks import BATCH_START
from lightning_gpuprof.adapters.lightning import Callback, batch_loop
from lightning_gpuprof.runtime.context import StepSource
from lightning_gpuprof.runtime.hooks import dispatcher_in

_NEVER = 1 << 62
_FAR = 16
"""To pass over this many steps or more, half of them are not counted one by one."""


class StepCalls:
    """Calls a function where a training step begins, for the length of a fit.

    With a `source` (the timing of the fit), that is right before the fetch of the step's batch.
    Without one a step is taken to begin at `on_train_batch_start`, after its fetch, which is then
    part of the step before. `on_step` is called with the step's number, from 0, but not while
    asleep.
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
        self._called_back = False
        self._leave: Callable[[], object] | None = None
        self._enter()

    @property
    def _completed(self) -> int:
        return int(self._progress.total.completed)

    def sleep_until(self, step: int | None) -> None:
        """Pass over the steps before this step; None for all steps."""
        self._due = _NEVER if step is None else self._first + step
        self._rest()

    def wake(self) -> None:
        """Pass over no more steps."""
        self._wait_no_more()
        self._enter()
        self._due = min(self._due, self._completed)

    def remove(self) -> None:
        """Call back no more."""
        self._due = _NEVER
        self._rest()

    def step_begins(self, *_: Any) -> None:
        """Call the function, unless the step is to be passed over."""
        completed = self._completed
        if completed >= self._due:
            self._due = completed + 1
            self._on_step(completed - self._first)

    def timing_ends(self) -> None:
        """Go on by the hook: the timing ended before the fit."""
        self._go()
        self._enter()

    def _rest(self) -> None:
        """Stop listening until shortly before the next step that counts."""
        self._wait_no_more()
        left = self._due - self._completed
        if left < _FAR:
            self._enter()
            return
        self._go()
        if self._due < _NEVER:
            self._called_back = True
            self._hooks.periodic.add(self._rest, left // 2)

    def _wait_no_more(self) -> None:
        if self._called_back:
            self._called_back = False
            self._hooks.periodic.drop(self._rest)

    def _enter(self) -> None:
        if self._leave is not None:
            return
        source = self._source
        if source is None or not source.running:
            self._hooks.add(BATCH_START, self.step_begins)
            self._leave = lambda: self._hooks.drop(BATCH_START, self.step_begins)
        else:
            source.listeners.append(self)
            self._leave = lambda: source.listeners.remove(self)

    def _go(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
