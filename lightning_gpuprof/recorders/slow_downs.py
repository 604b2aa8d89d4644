"""Notices that training has become slower, while it runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import data_loop
from lightning_gpuprof.adapters.loaders import loaders_of
from lightning_gpuprof.recorders.cores import core_wait
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CoreWait, WaitSoFar
from lightning_gpuprof.runtime.context import SlowDownListener
from lightning_gpuprof.runtime.guard import attempt, guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher
from lightning_gpuprof.runtime.recording import slow_down_listeners
from lightning_gpuprof.shifts.online import SlowDownWatch
from lightning_gpuprof.shifts.step_rows import StepRows, joined

READ_EVERY_NS, MOST_UNREAD = 250_000_000, 200
"""Steps are looked at so rarely, unless there have been so many since."""


class SlowDowns(Recorder):
    """Records since which step training is slower, and in which phase, once that is sure.

    The steps of the windows that are written anyway are compared with those before. Callbacks with
    an `on_slow_down` are called, when a slow-down is sure and again when it has ended. With them
    the time is recorded that the training thread has waited for a core.

    Costs: 0.25 us per step, in the training thread at the end of a window. 1.3 to 1.7 us per step
        on average where the machine's speed drifts, because steps are searched, for some
        milliseconds, once the last windows are slower than those before.
    Touches: nothing. It reads the times of steps, and a file of /proc.
    When: training.

    Args:
        read: Returns how long this thread has waited for a core; tests pass a fake.
    """

    def __init__(self, read: Callable[[], CoreWait | None] = core_wait) -> None:
        self._read = read
        self._watch = SlowDownWatch()
        self._listeners: Sequence[SlowDownListener] = ()
        self._rows: list[StepRows] = []
        self._read_ns = 0
        self._has_workers = False
        self._last: WaitSoFar | None = None

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._watch, self._listeners = SlowDownWatch(), slow_down_listeners(trainer)
        loaders = attempt(lambda: loaders_of(data_loop(trainer)), [])
        self._has_workers = any(int(getattr(loader, "num_workers", 0)) for loader in loaders)
        if self._timing is not None and self._context is not None:
            self._rows, self._last = [], None
            self._read_wait(self._timing.step)
            self._timing.window_listeners.append(self)

    @guarded
    def window_ends(self, rows: StepRows) -> None:
        """Look for a slow-down in the steps so far."""
        context = self._context
        if context is None:
            return
        self._rows.append(rows)
        is_early = context.now() - self._read_ns < READ_EVERY_NS
        if is_early and sum(map(len, self._rows)) < MOST_UNREAD:
            return
        before, steps = self._last, joined(self._rows)
        self._rows = []
        now = self._read_wait(int(steps.steps[-1]))
        steps = replace(with_waits(steps, before, now), has_workers=self._has_workers)
        slow_down = self._watch.add(steps)
        if slow_down is None:
            return
        context.write(slow_down)
        for listener in self._listeners:
            listener.on_slow_down(slow_down)

    def _read_wait(self, step: int) -> WaitSoFar | None:
        """Record how long the training thread has waited for a core; None if that is unknown."""
        context, wait = self._context, self._read()
        self._last = None if wait is None else WaitSoFar(step, wait.queued_ns)
        if context is not None:
            self._read_ns = context.now()
            if self._last is not None:
                context.write(self._last)
        return self._last

    @override
    def on_train_end(self, trainer: Any) -> None:
        if self._timing is not None:
            self._read_wait(self._timing.step)
        self.release()

    @override
    def release(self) -> None:
        if self._timing is not None and self in self._timing.window_listeners:
            self._timing.window_listeners.remove(self)
        self._listeners = ()


def with_waits(rows: StepRows, before: WaitSoFar | None, now: WaitSoFar | None) -> StepRows:
    """Return the steps with the mean time for which each waited for a core between two readings."""
    if before is None or now is None:
        return rows
    mean_ns = (now.queued_ns - before.queued_ns) // max(1, now.step - before.step)
    return replace(rows, queued_ns=np.full(len(rows), max(0, mean_ns)))
