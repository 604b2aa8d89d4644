"""Runs the recorders of single facts as a callback."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import BATCH_END
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.recorders.anomaly_detection import AnomalyDetection
from lightning_gpuprof.recorders.batch_sizes import BatchSizesRecorder
from lightning_gpuprof.recorders.collective_waits import CollectiveWaits
from lightning_gpuprof.recorders.cores import CoreWaits
from lightning_gpuprof.recorders.embedding_tables import EmbeddingTablesRecorder
from lightning_gpuprof.recorders.first_batch import FirstBatch
from lightning_gpuprof.recorders.garbage_collection import GarbageCollections
from lightning_gpuprof.recorders.gradient_sync import GradientSync
from lightning_gpuprof.recorders.host_counters import HostCountersRecorder
from lightning_gpuprof.recorders.kept_predictions import KeptPredictionsRecorder
from lightning_gpuprof.recorders.metric_states import MetricStatesRecorder
from lightning_gpuprof.recorders.predict_outputs import PredictOutputsRecorder
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.recorders.slow_downs import SlowDowns
from lightning_gpuprof.recorders.stage_work import StageWorkRecorder
from lightning_gpuprof.recorders.stream_batches import StreamBatchesRecorder
from lightning_gpuprof.recorders.worker_memory import WorkerMemories
from lightning_gpuprof.runtime.context import StepTiming
from lightning_gpuprof.runtime.guard import enable, guarded, guarded_call, is_disabled
from lightning_gpuprof.runtime.hooks import HookSet, dispatcher_in
from lightning_gpuprof.runtime.recording import RecordingCallback

RECORDERS: tuple[type[Recorder], ...] = (
    CoreWaits,
    HostCountersRecorder,
    FirstBatch,
    BatchSizesRecorder,
    EmbeddingTablesRecorder,
    AnomalyDetection,
    GradientSync,
    CollectiveWaits,
    GarbageCollections,
    WorkerMemories,
    StreamBatchesRecorder,
    StageWorkRecorder,
    KeptPredictionsRecorder,
    MetricStatesRecorder,
    SlowDowns,
)
"""The recorders of single facts, each in its file of `recorders/`: add a new one here."""


class RunFacts(RecordingCallback):
    """Records single facts of a fit, each with its own recorder.

    A recorder that fails is switched off alone. The settings of the loader, the optimizer, the
    precision and torch are recorded without this callback too, when the record file begins.

    Costs: 2 to 20 ms per fit, and what its recorders say.
    Touches: what its recorders say.
    When: the beginning and the end of training, and the first batch.
    Switch: facts=False

    Args:
        recorders: The recorders to run; by default all of `RECORDERS`.
        outputs: Whether samples of what `predict_step` returns are recorded as well.
    """

    def __init__(
        self, recorders: Sequence[Recorder] | None = None, *, outputs: bool = False
    ) -> None:
        super().__init__()
        chosen = [recorder() for recorder in RECORDERS] if recorders is None else recorders
        self.recorders = (*chosen, *([PredictOutputsRecorder()] if outputs else []))
        self._hooks = HookSet({BATCH_END: self._first_batch_ends})

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._join()

    @override
    def use_timing(self, timing: StepTiming) -> None:
        super().use_timing(timing)
        self._join()

    def _join(self) -> None:
        if self._context is not None:
            for recorder in self.recorders:
                enable(recorder)
            self._each("setup", self._context, self._timing)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        dispatcher = dispatcher_in(trainer, self)
        self._each("on_train_start", trainer, dispatcher)
        self._hooks.add(dispatcher)

    @guarded
    def _first_batch_ends(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self._hooks.drop()
        self._each("on_first_batch_end", trainer, outputs, batch)

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._each("on_train_end", trainer)
        self._release()

    def _each(self, moment: str, *args: Any) -> None:
        for recorder in self.recorders:
            if not is_disabled(recorder):
                guarded_call(recorder, partial(getattr(recorder, moment), *args))()

    @override
    def _release(self) -> None:
        self._hooks.drop()
        for recorder in self.recorders:
            recorder.release()
