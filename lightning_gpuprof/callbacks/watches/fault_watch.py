"""Notes how often memory had to be handed out to the training thread anew."""

import mmap
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.probes.page_faults import Faults, fault_ns, thread_faults
from lightning_gpuprof.records.page_faults import FAULTS_NOTE, PageFaults

LEAST_BATCHES = 20


class FaultWatch(Watch):
    """Reads the training thread's page faults behind the first batches and when training ends.

    At the end it tries what one takes, which lasts some milliseconds; no step waits for anything.

    Args:
        after: Batches before the first look: in these, memory is new anyway.
        count: Returns the thread's faults so far; tests pass a fake.
        tried: Returns what one takes.
    """

    def __init__(
        self,
        *,
        after: int = 50,
        count: Callable[[], Faults | None] = thread_faults,
        tried: Callable[[], float | None] = fault_ns,
    ) -> None:
        super().__init__()
        self._count, self._tried = count, tried
        self._before: tuple[int, Faults] | None = None
        self._waiting = Hooks({"on_train_batch_end": self._begin}, every=after)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._before = None
        self._waiting.add(called_by_trainer(trainer, self))

    @guarded
    def _begin(self, trainer: Trainer, *_: Any) -> None:
        self._waiting.drop()
        seen = self._count()
        if seen is not None:
            self._before = trainer.fit_loop.total_batch_idx, seen

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_end(trainer, pl_module)
        now = None if self._before is None else self._count()
        if now is None or self._before is None or self._output is None:
            return
        begun, before = self._before
        batches = trainer.fit_loop.total_batch_idx - begun
        taken_ns = self._tried() if batches >= LEAST_BATCHES else None
        if taken_ns is not None:
            self._output.note(
                FAULTS_NOTE,
                PageFaults(
                    batches=batches,
                    faults=now.faults - before.faults,
                    system_ns=now.system_ns - before.system_ns,
                    fault_ns=taken_ns,
                    page_bytes=mmap.PAGESIZE,
                ),
            )

    @override
    def _release(self) -> None:
        self._waiting.drop()
