"""Notes how often a container's CPU quota made the run wait."""

from collections.abc import Callable

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.probes.cpu_quota import cpu_quota
from lightning_gpuprof.records.cpu_quota import QUOTA_NOTE, CpuQuota


class QuotaWatch(Watch):
    """Reads the counters of the process's control group when training begins and when it ends.

    Two files are read each time; where there is no quota nothing is noted.

    Args:
        read: Returns the counters; tests pass a fake.
    """

    def __init__(self, *, read: Callable[[], CpuQuota | None] = cpu_quota) -> None:
        super().__init__()
        self._read = read
        self._before: CpuQuota | None = None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._before = self._read()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        now = None if self._before is None else self._read()
        if now is not None and self._before is not None and self._output is not None:
            self._output.note(QUOTA_NOTE, now.since(self._before))
