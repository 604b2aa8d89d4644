"""Notes what full runs of Python's garbage collector take."""

import gc
from time import perf_counter_ns
from typing import Any

from typing_extensions import override

from lightning_gpuprof.analysis.run.spikes import GC_NOTE
from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import EpochRecorder
from lightning_gpuprof.records.schema import Note

_FULL = 2
"""The generation of `gc.collect()`; the younger ones take microseconds."""
_MOST = 10_000
"""Steps with collections that are kept; in later ones they go unseen."""


class GcWatch(EpochRecorder):
    """Times the full garbage collections during training, and notes each step's sum.

    The interpreter itself says when a collection begins and ends (`gc.callbacks`); nothing runs in
    a step without one. The notes are written when an epoch ends: to write from inside a collection,
    which may begin anywhere, would not be safe.
    """

    def __init__(self) -> None:
        super().__init__()
        self._taken_ns: dict[int, int] = {}
        self._written = 0
        self._begun_ns: int | None = None

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._taken_ns, self._written, self._begun_ns = {}, 0, None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        gc.callbacks.append(self._collects)

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL:
            return
        now = perf_counter_ns()
        if phase == "start":
            self._begun_ns = now
        elif self._begun_ns is not None and self._output is not None:
            step = self._output.step
            if step in self._taken_ns or self._written + len(self._taken_ns) < _MOST:
                self._taken_ns[step] = self._taken_ns.get(step, 0) + now - self._begun_ns
            self._begun_ns = None

    @override
    def _write(self) -> None:
        taken, self._taken_ns = self._taken_ns, {}
        self._written += len(taken)
        if self._output is not None:
            for step, taken_ns in taken.items():
                self._output.write(Note(step=step, name=GC_NOTE, value=taken_ns))

    @override
    def _release(self) -> None:
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
