"""Which values `self.log` exchanges between ranks in each step."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import logged_results
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import SyncedLogs as Record
from lightning_gpuprof.session.guard import attempt


class SyncedLogs(Recorder):
    """Notes what was logged with `sync_dist=True` and `on_step=True`, where there are ranks.

    Costs: some 10 us, once.
    Touches: nothing; it reads how each value was asked to be logged, not the value.
    When: the first batch's end, with several ranks.
    """

    @override
    def first_batch_ends(self, trainer: Any, batch: Any) -> None:
        if trainer.world_size < 2 or self._output is None:
            return
        results = logged_results(trainer.fit_loop.epoch_loop)
        metas = attempt(lambda: [one.meta for one in results.values()], [])
        synced = tuple(dict.fromkeys(one.name for one in metas if one.on_step and one.sync.should))
        if synced:
            self._output.write(Record(synced))
