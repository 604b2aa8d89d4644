"""Looks once which logged values all ranks exchange in each step."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import attempt, guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.records.notes import SYNCED_NOTE


class LogWatch(Watch):
    """Notes at the end of the first batch what was logged with `sync_dist=True` and `on_step=True`.

    Lightning keeps with each value how it was asked to be logged; that is read, no value is. With
    one rank nothing is exchanged, and there is no look.
    """

    def __init__(self) -> None:
        super().__init__()
        self._hooks = Hooks({"on_train_batch_end": self._look})

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        if trainer.world_size > 1:
            self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _look(self, trainer: Any, *_: Any) -> None:
        self._release()
        results = trainer.fit_loop.epoch_loop._results
        metas = attempt(lambda: [one.meta for one in results.values()], [])
        synced = tuple(dict.fromkeys(one.name for one in metas if one.on_step and one.sync.should))
        if synced and self._output is not None:
            self._output.note(SYNCED_NOTE, synced)

    @override
    def _release(self) -> None:
        self._hooks.drop()
