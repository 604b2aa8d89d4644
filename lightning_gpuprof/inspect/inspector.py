"""The callback that `lightning-gpuprof inspect` adds to a script's Trainer."""

from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.inspect.cpu_syncs import CpuSyncDetector
from lightning_gpuprof.inspect.cuda_syncs import CudaSyncDetector
from lightning_gpuprof.inspect.places import Report, SyncSites
from lightning_gpuprof.inspect.work import Work
from lightning_gpuprof.records.inspection import Inspection
from lightning_gpuprof.runtime.patches import Patches
from lightning_gpuprof.runtime.step_start import StepBorders

WARM_UP = 1
"""The first step is not inspected: it sets up lazily what later ones use."""
_FETCH = "train_dataloader_next"
"""How the profiler's action of a batch's fetch ends."""
SyncDetector = CpuSyncDetector | CudaSyncDetector
NewDetector = Callable[[Trainer, Report, Callable[[], bool]], SyncDetector]


class InspectionDone(BaseException):
    """Ends the script once its steps were inspected; no `except Exception` stops it."""


class Inspector(Callback):
    """Inspects a few training steps and ends the script, at the latest at its first epoch's end.

    First `steps` steps are inspected for host syncs, then as many others for needless work: finding
    syncs adds calls of its own. `done` receives the result.
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
        self._syncs: Syncs
        self._work: Work
        self._open: Syncs | Work | None = None
        self.borders: list[StepBorders] | None = []

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._syncs = Syncs(trainer, self._new_detector)
        self._work = Work(trainer)
        # Only here, in the inspection's own process, is a method of the profiler wrapped.
        profiler: Any = vars(trainer)["profiler"]
        Patches().instead(profiler, "start", self._with_borders)
        StepBorders(trainer, self, self._begin_step, self).sleep_until(WARM_UP)

    def _with_borders(self, start: Callable[[str], None], action_name: str) -> None:
        if action_name.endswith(_FETCH):
            for border in self.borders or ():
                border.reach()
        start(action_name)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish()  # validation is off, so an epoch's end may miss what it monitors

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish()

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _begin_step(self, number: int) -> None:
        part = self._syncs if number - WARM_UP < self._steps else self._work
        if part.steps == self._steps:
            self._finish()
        if part is not self._open:
            self._close()
            self._open = part
            part.start()
        part.begin_step()

    def _close(self) -> None:
        if self._open is not None:
            self._open.stop()

    def _finish(self) -> None:
        self._close()
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


class Syncs:
    """Inspects a Trainer's steps for host syncs."""

    def __init__(self, trainer: Trainer, new_detector: NewDetector) -> None:
        self._trainer = trainer
        self._new_detector = new_detector
        self._detector: SyncDetector | None = None
        self.sites = SyncSites()
        self.steps = 0
        self.refused = False
        self._fetching = False
        self._patches = Patches()

    def start(self) -> None:
        """Begin to inspect, where the device allows it."""
        self._detector = self._new_detector(self._trainer, self.sites.add, lambda: self._fetching)
        self.sites.would_sync = self._detector.would_sync
        self.refused = not self._detector.start()
        if not self.refused:
            self._patches.instead(self._trainer.strategy, "batch_to_device", self._moving)
            self._patches.instead(self._trainer.lightning_module, "log", self._logging)

    def begin_step(self) -> None:
        """Note that a step begins: it fetches its batch."""
        if not self.refused:
            self.steps += 1
            self._fetching = True

    def stop(self) -> None:
        """Put everything back."""
        if self._detector is not None:
            self._detector.stop()
        self._patches.restore()

    def _moving(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._fetching = False
        return original(*args, **kwargs)

    def _logging(self, original: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        self.sites.logs(name)
        return original(name, *args, **kwargs)


def detector_of(trainer: Trainer, report: Report, fetching: Callable[[], bool]) -> SyncDetector:
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
