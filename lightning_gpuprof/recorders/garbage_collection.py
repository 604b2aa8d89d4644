"""Full runs of Python's garbage collector, as a phase of their own."""

import gc
from contextlib import AbstractContextManager
from typing import Any

from typing_extensions import override

from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.runtime.context import RunContext, StepTiming
from lightning_gpuprof.runtime.hooks import HookDispatcher

_FULL = 2
"""The generation of `gc.collect()`; the younger ones take microseconds."""


class GarbageCollections(Recorder):
    """Takes full garbage collections out of the phases that they fell into.

    A collection comes after so many objects were made, in whichever phase makes the last. One in
    another thread holds up the training thread as well.

    Costs: 1 us per collection, nothing in a step without one.
    Touches: a function in `gc.callbacks`, to which the interpreter says when it collects.
    When: training.
    """

    _region: AbstractContextManager[Any] | None = None

    @override
    def joins(self, context: RunContext, timing: StepTiming | None = None) -> None:
        super().joins(context, timing)
        self._region = None if timing is None else timing.garbage_collections()

    @override
    def train_starts(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        if self._region is not None:
            gc.callbacks.append(self._collects)

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL or self._region is None:
            return
        if phase == "start":
            self._region.__enter__()
        else:
            self._region.__exit__(None, None, None)

    @override
    def release(self) -> None:
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
