"""Notes how many bytes a batch holds."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.probes.batch_size.batch_samples import tensor_bytes
from lightning_gpuprof.records.schema import BATCH_NOTE


class BatchWatch(Watch):
    """Notes the bytes of the first batch's tensors, read from their shapes."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks = Hooks({"on_train_batch_end": self._batch_ends})

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _batch_ends(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self._release()
        if self._output is not None:
            self._output.note(BATCH_NOTE, tensor_bytes(batch))

    @override
    def _release(self) -> None:
        self._hooks.drop()
