"""Notices that training has become slower, while it runs."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.runtime.context import SlowDownListener
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher
from lightning_gpuprof.runtime.recording import slow_down_listeners
from lightning_gpuprof.shifts.online import SlowDownWatch
from lightning_gpuprof.shifts.step_rows import StepRows


class SlowDowns(Recorder):
    """Records since which step training is slower, and in which phase, once that is sure.

    The steps of the windows that are written anyway are compared with those before. Callbacks with
    an `on_slow_down` are called, when a slow-down is sure and again when it has ended.

    Costs: 0.1 us per step, in the training thread at the end of a window. Some milliseconds once
        the last windows are slower than those before.
    Touches: nothing. It reads the times of steps.
    When: training.
    """

    def __init__(self) -> None:
        self._watch = SlowDownWatch()
        self._listeners: Sequence[SlowDownListener] = ()

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._watch, self._listeners = SlowDownWatch(), slow_down_listeners(trainer)
        if self._timing is not None:
            self._timing.window_listeners.append(self)

    @guarded
    def window_ends(self, rows: StepRows) -> None:
        """Look for a slow-down in the steps so far."""
        slow_down = self._watch.add(rows)
        if slow_down is None or self._context is None:
            return
        self._context.write(slow_down)
        for listener in self._listeners:
            listener.on_slow_down(slow_down)

    @override
    def on_train_end(self, trainer: Any) -> None:
        self.release()

    @override
    def release(self) -> None:
        if self._timing is not None and self in self._timing.window_listeners:
            self._timing.window_listeners.remove(self)
        self._listeners = ()
