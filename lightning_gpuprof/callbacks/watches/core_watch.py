"""Notes who else used the cores while training ran."""

import os
import threading
from collections.abc import Callable

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.probes.core_times import CoreTimes, core_times, used_between
from lightning_gpuprof.records.core_use import CORES_NOTE


class CoreWatch(Watch):
    """Reads the kernel's account of cores and processes when training begins and when it ends.

    Args:
        read: Returns the times so far; tests pass a fake.
    """

    def __init__(self, *, read: Callable[[], CoreTimes | None] = core_times) -> None:
        super().__init__()
        self._read = read
        self._before: CoreTimes | None = None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._before = self._read()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        before, self._before = self._before, None
        after = None if before is None else self._read()
        if before is None or after is None or self._output is None:
            return
        # What launched the ranks is rank 0, or has them all as its children.
        root = os.getpid() if trainer.world_size == 1 else os.getppid()
        thread = threading.get_native_id()
        self._output.note(CORES_NOTE, used_between(before, after, root=root, thread=thread))
