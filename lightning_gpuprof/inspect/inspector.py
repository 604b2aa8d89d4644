"""The callback that `lightning-gpuprof inspect` adds to a script's Trainer."""

from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.actions import FETCH_ACTION
from lightning_gpuprof.adapters.lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.inspect.cpu_syncs import CpuSyncDetector
from lightning_gpuprof.inspect.cuda_syncs import CudaSyncDetector
from lightning_gpuprof.inspect.places import ReportSync, SyncSites
from lightning_gpuprof.inspect.work import WorkInspection
from lightning_gpuprof.records.inspection import Inspection
from lightning_gpuprof.runtime.context import StepListener
from lightning_gpuprof.runtime.step_start import StepCalls
from lightning_gpuprof.runtime.wrap import Wrappers

WARM_UP = 1
"""Steps before the inspection. The first step initializes lazily what later steps use."""
SyncDetector = CpuSyncDetector | CudaSyncDetector
NewDetector = Callable[[Trainer, ReportSync, Callable[[], bool]], SyncDetector]
"""Makes the detector for a Trainer. The last argument returns whether a batch is being fetched."""


class InspectionDone(BaseException):
    """Ends the script after its inspection. `except Exception` in the script does not catch it."""


class Inspector(Callback):
    """Inspects a few training steps and then ends the script.

    The first `steps` steps are inspected for host syncs. The next `steps` steps are inspected for
    needless work, apart from the first, because the detection of syncs adds calls of its own. The
    script ends at the end of its first epoch even if fewer steps have run.

    Args:
        steps: Number of steps for each of the two inspections.
        done: Receives the result.
        new_detector: Makes the detector of host syncs; by default the detector for the device.
    """

    def __init__(
        self,
        *,
        steps: int,
        done: Callable[[Inspection], None],
        new_detector: NewDetector | None = None,
    ) -> None:
        self._steps = steps
        self._done = done
        self._new_detector = new_detector or detector_of
        self._syncs: SyncInspection
        self._work: WorkInspection
        self._running: SyncInspection | WorkInspection | None = None
        self.running = True
        self.listeners: list[StepListener] = []

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._syncs = SyncInspection(trainer, self._new_detector)
        self._work = WorkInspection(trainer)
        # The inspection has a process of its own. No other part wraps a method of the profiler.
        profiler: Any = vars(trainer)["profiler"]
        Wrappers().call_instead(profiler, "start", self._with_borders)
        StepCalls(trainer, self, self._begin_step, self).sleep_until(WARM_UP)

    def _with_borders(self, start: Callable[[str], None], action_name: str) -> None:
        if action_name.endswith(FETCH_ACTION):
            for listener in tuple(self.listeners):
                listener.step_begins()
        start(action_name)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # The script must not run further: validation is off, and callbacks at an epoch's end may
        # need a value that validation would have logged.
        self._finish()

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish()

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._stop_running()

    def _begin_step(self, number: int) -> None:
        inspection = self._syncs if number - WARM_UP < self._steps else self._work
        if inspection.steps == self._steps:
            self._finish()
        if inspection is not self._running:
            self._stop_running()
            self._running = inspection
            inspection.start()
        inspection.begin_step()

    def _stop_running(self) -> None:
        if self._running is not None:
            self._running.stop()

    def _finish(self) -> None:
        self._stop_running()
        syncs, work = self._syncs, self._work
        calls_per_step, calls = work.calls_per_step()
        self._done(
            Inspection(
                sync_steps=syncs.steps,
                sites=syncs.sites.rows(syncs.steps),
                syncs_raise=syncs.refused,
                work_steps=work.steps,
                waste=work.waste(),
                unused_gradients=work.unused,
                calls=calls,
                calls_per_step=calls_per_step,
            )
        )
        raise InspectionDone


class SyncInspection:
    """Inspects a Trainer's steps for host syncs, from `start` to `stop`."""

    def __init__(self, trainer: Trainer, new_detector: NewDetector) -> None:
        self._trainer = trainer
        self._new_detector = new_detector
        self._detector: SyncDetector | None = None
        self.sites = SyncSites()
        self.steps = 0
        self.refused = False
        self._fetching = False
        self._wrappers = Wrappers()

    def start(self) -> None:
        """Begin to inspect, unless the user's settings do not allow it."""
        self._detector = self._new_detector(self._trainer, self.sites.add, lambda: self._fetching)
        self.sites.would_sync = self._detector.would_sync
        self.refused = not self._detector.start()
        if not self.refused:
            self._wrappers.call_instead(
                self._trainer.strategy, "batch_to_device", self._batch_to_device
            )
            self._wrappers.call_instead(self._trainer.lightning_module, "log", self._log)

    def begin_step(self) -> None:
        """Count a step, which begins with the fetch of its batch."""
        if not self.refused:
            self.steps += 1
            self._fetching = True

    def stop(self) -> None:
        """Stop the detector and restore the methods that were wrapped."""
        if self._detector is not None:
            self._detector.stop()
        self._wrappers.restore()

    def _batch_to_device(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._fetching = False
        return original(*args, **kwargs)

    def _log(self, original: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        self.sites.note_logged_value(name)
        return original(name, *args, **kwargs)


def detector_of(trainer: Trainer, report: ReportSync, fetching: Callable[[], bool]) -> SyncDetector:
    """Return the detector for the device that a Trainer trains on."""
    if trainer.strategy.root_device.type == "cuda":
        return CudaSyncDetector(report)
    counters = [
        value
        for optimizer in trainer.optimizers
        for state in getattr(optimizer, "state", {}).values()
        if isinstance(state, dict)
        for name, value in state.items()
        if name == "step" and isinstance(value, torch.Tensor)
    ]
    return CpuSyncDetector(report, on_host=counters, fetching=fetching)
