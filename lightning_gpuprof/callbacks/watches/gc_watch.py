"""Charges full runs of Python's garbage collector to a phase of their own."""

import gc
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.probes.clock.phase_clock import Inside, PhaseClock, Slot
from lightning_gpuprof.records.phases import Phase

_FULL = 2
"""The generation of `gc.collect()`; the younger ones take microseconds."""


class Collecting(Inside):
    """A full garbage collection: its part is the phase that it fell into, or that one's part."""

    __slots__ = ()

    def __init__(self, clock: PhaseClock) -> None:
        super().__init__(clock, Phase.GARBAGE_COLLECTION.value)

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        """Return the slot of a collection that began while `outer` was charged."""
        return Slot(Phase.GARBAGE_COLLECTION, outer.part or outer.phase.value)


class GcWatch(Watch):
    """Takes the full garbage collections during training out of the phases that they fell into.

    A collection comes after so many objects were made, whichever phase makes the last: a first one
    of 150 ms would be half of what a single validation takes. The interpreter itself says when one
    begins and ends (`gc.callbacks`); nothing runs in a step without one. In another thread one
    holds the interpreter's lock, and so the training thread up, just as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self._region: Collecting | None = None

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        output = self._output
        self._region = None
        if stage == "fit" and output is not None and output.phase_clock is not None:
            self._region = Collecting(output.phase_clock)
            output.phases.append(Phase.GARBAGE_COLLECTION.value)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        gc.callbacks.append(self._collects)

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL or self._region is None:
            return
        if phase == "start":
            self._region.__enter__()
        else:
            self._region.__exit__(None, None, None)

    @override
    def _release(self) -> None:
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
