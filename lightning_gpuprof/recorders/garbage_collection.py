"""Times full runs of Python's garbage collector as a phase of their own."""

import gc
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any

from typing_extensions import override

from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.runtime import fits
from lightning_gpuprof.runtime.context import RunContext, StepTiming
from lightning_gpuprof.runtime.hooks import HookDispatcher

_FULL = 2
"""The generation of a full collection. Collections of younger generations take microseconds."""


class GarbageCollections(Recorder):
    """Counts full garbage collections as a phase, and not as a part of the phase they occur in.

    A collection starts when a number of objects have been made, in whatever phase that happens. A
    collection in another thread holds up the training thread too. It counts unless that thread may
    be training as well, in which case several clocks would be changed at once.

    Costs: 1 us per collection, and nothing in a step without a collection.
    Touches: a function in `gc.callbacks`, which the interpreter calls at every collection.
    When: training.
    """

    _region: AbstractContextManager[Any] | None = None
    _thread = 0
    _open = False

    @override
    def setup(self, context: RunContext, timing: StepTiming | None = None) -> None:
        super().setup(context, timing)
        self._region = None if timing is None else timing.garbage_collections()

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._thread, self._open = get_ident(), False
        if self._region is not None:
            gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL or self._region is None:
            return
        if phase == "start":
            if not self._open and (self._thread == get_ident() or not fits.several()):
                self._open = True
                self._region.__enter__()
        elif self._open:
            self._open = False
            self._region.__exit__(None, None, None)

    @override
    def release(self) -> None:
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
