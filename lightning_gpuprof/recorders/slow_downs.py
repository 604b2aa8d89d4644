"""Notices that training has become slower, while it runs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from lightning_gpuprof.recorders.cores import host_counters
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import HostCounters
from lightning_gpuprof.runtime.context import SlowDownListener
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher
from lightning_gpuprof.runtime.recording import slow_down_listeners
from lightning_gpuprof.shifts.online import SlowDownWatch
from lightning_gpuprof.shifts.step_rows import StepRows, joined

READ_EVERY_NS, MOST_UNREAD = 250_000_000, 200
"""The counters are read so rarely, unless there have been so many steps since."""


class SlowDowns(Recorder):
    """Records since which step training is slower, and in which phase, once that is sure.

    The steps of the windows that are written anyway are compared with those before. Callbacks with
    an `on_slow_down` are called, when a slow-down is sure and again when it has ended.

    With them the counters of the host are recorded, such as page faults and waits for a core.

    Costs: 0.1 us per step, in the training thread at the end of a window, and 30 us four times a
        second at most. Some milliseconds once the last windows are slower than those before.
    Touches: nothing. It reads the times of steps, and files of /proc and /sys/fs/cgroup.
    When: training.

    Args:
        read: Returns the host's counters after a step; tests pass a fake.
    """

    def __init__(self, read: Callable[[int], HostCounters] = host_counters) -> None:
        self._read = read
        self._watch = SlowDownWatch()
        self._listeners: Sequence[SlowDownListener] = ()
        self._last: HostCounters | None = None
        self._unread: list[StepRows] = []

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._watch, self._listeners = SlowDownWatch(), slow_down_listeners(trainer)
        if self._timing is not None and self._context is not None:
            self._last, self._unread = self._read(self._timing.step), []
            self._context.write(self._last)
            self._timing.window_listeners.append(self)

    @guarded
    def window_ends(self, rows: StepRows) -> None:
        """Look for a slow-down in the steps so far."""
        context, last = self._context, self._last
        if context is None or last is None:
            return
        self._unread.append(rows)
        since_ns = time.perf_counter_ns() - last.wall_ns
        if since_ns < READ_EVERY_NS and sum(map(len, self._unread)) < MOST_UNREAD:
            return
        self._last = now = self._read(int(rows.steps[-1]))
        context.write(now)
        steps, self._unread = joined(self._unread), []
        slow_down = self._watch.add(with_waits(steps, now, last))
        if slow_down is None:
            return
        context.write(slow_down)
        for listener in self._listeners:
            listener.on_slow_down(slow_down)

    @override
    def on_train_end(self, trainer: Any) -> None:
        if self._context is not None and self._timing is not None and self._last is not None:
            self._context.write(self._read(self._timing.step))
        self.release()

    @override
    def release(self) -> None:
        if self._timing is not None and self in self._timing.window_listeners:
            self._timing.window_listeners.remove(self)
        self._listeners = ()


def with_waits(rows: StepRows, now: HostCounters, last: HostCounters) -> StepRows:
    """Return the steps with the mean time for which each waited for a core between two readings."""
    if now.queued_ns is None or last.queued_ns is None:
        return rows
    mean_ns = (now.queued_ns - last.queued_ns) // max(1, now.step - last.step)
    return replace(rows, queued_ns=np.full(len(rows), max(0, mean_ns)))
