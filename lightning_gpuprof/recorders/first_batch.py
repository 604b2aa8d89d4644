"""The size of a batch, gradients that nobody uses, and values that ranks exchange for the log."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import logged_results
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.recorders.unused_gradients import unused_gradients
from lightning_gpuprof.records.facts import BatchBytes, SyncedLogs
from lightning_gpuprof.session.guard import attempt
from lightning_gpuprof.tensors import tensor_bytes


class FirstBatch(Recorder):
    """Records bytes, unused gradients and, with several ranks, what each step's log exchanges.

    Exchanged in each step is what is logged with `sync_dist=True` and `on_step=True`.

    Costs: some 20 us, once.
    Touches: nothing; it reads tensors' sizes, which parameters have gradients, and how values were
        logged.
    When: the first batch's end.
    """

    @override
    def first_batch_ends(self, trainer: Any, batch: Any) -> None:
        if self._output is None:
            return
        self._output.write(BatchBytes(tensor_bytes(batch)))
        groups = [group for one in trainer.optimizers for group in one.param_groups]
        unused = unused_gradients(trainer.lightning_module, groups)
        if unused is not None:
            self._output.write(unused)
        if trainer.world_size < 2:
            return
        results = logged_results(trainer.fit_loop.epoch_loop)
        metas = attempt(lambda: [one.meta for one in results.values()], [])
        synced = tuple(dict.fromkeys(one.name for one in metas if one.on_step and one.sync.should))
        if synced:
            self._output.write(SyncedLogs(synced))
