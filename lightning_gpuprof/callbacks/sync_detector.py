"""Names the lines that make the host wait for the device."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.callbacks.syncs.sync_window import SyncWindow
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.syncs.sync_debug import CudaSyncWatch
from lightning_gpuprof.probes.syncs.sync_lint import CpuSyncWatch
from lightning_gpuprof.probes.syncs.sync_watch import Patches, Report, SyncWatch
from lightning_gpuprof.records.schema import SYNC_STEPS_NOTE, Note, SyncSite
from lightning_gpuprof.session.step_start import StepBorders

_OF_A_RUN = ("_borders", "_trainer", "_watch", "_window")


class Measuring(Protocol):
    """Something that must not be disturbed at times."""

    @property
    def busy(self) -> bool:
        """It measures now, or begins with the next step."""
        ...


class SyncDetector(RecordingCallback):
    """Finds each host sync of a few training steps: its line, its owner, how often, how long.

    A host sync is a call for which the host waits until the device has caught up: `.item()`,
    `.cpu()`, `print(tensor)`, a boolean mask, a copy from pageable memory. On CUDA and HIP torch
    itself reports them. On a CPU nothing waits; there the calls are found that would sync on a
    GPU (`SyncSite.would_sync`), by torch modes that slow the watched steps down and under which
    torch.compile and fast paths of torch.nn are not taken.

    Outside its window it costs nothing. Validation, checkpoints and epoch ends are not watched,
    nor are other threads. Records: one `SyncSite` per line.

    Args:
        start: Step to begin at, from 0; later than the first steps, which compile and allocate.
        steps: Steps to watch.
        on_cpu: Whether to look at a loop on a CPU too, for calls that would sync on a GPU.
        beside: Measures in windows of its own: this one waits while that one is open, and ends
            when it opens.
        on_sites: Receives the rows instead of the run's records.
        new_watch: Makes a watch of the device; tests pass a fake.

    Raises:
        ConfigError: A number that would never watch.
    """

    def __init__(
        self,
        *,
        start: int = 5,
        steps: int = 3,
        on_cpu: bool = True,
        beside: Measuring | None = None,
        on_sites: Callable[[Sequence[SyncSite], int], None] | None = None,
        new_watch: Callable[[Trainer, Report, Callable[[], bool]], SyncWatch] | None = None,
    ) -> None:
        if start < 0 or steps < 1:
            raise ConfigError(
                f"SyncDetector(start={start}, steps={steps}) would never watch. Pass start=0 or "
                "more and steps=1 or more, or leave the callback out."
            )
        super().__init__()
        self.start = start
        self.steps = steps
        self.on_cpu = on_cpu
        self._beside = beside
        self._on_sites = on_sites
        self._new_watch = new_watch or watch_of
        self._borders: StepBorders | None = None
        self._trainer: Trainer | None = None
        self._watch: SyncWatch | None = None
        self._window: SyncWindow | None = None
        self._patches = Patches()
        self._fetching = False
        self._step = -1

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Join the run's output."""
        if self._on_sites is None:
            super().setup(trainer, pl_module, stage)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to count steps."""
        if not self.on_cpu and trainer.strategy.root_device.type != "cuda":
            return
        self._trainer = trainer
        self._step = -1
        self._borders = StepBorders(trainer, self, self._begin_step)
        self._borders.sleep_until(self.start)

    @override
    @guarded
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What comes until the next step is none of the hot loop's."""
        if self._window is not None:
            self._window.paused = True

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End a window that the run was too short for, and keep what it found."""
        self._close()

    @guarded
    def _begin_step(self, number: int) -> None:
        self._step = number
        window = self._window
        if window is not None and (window.steps >= self.steps or self._busy):
            self._close()
            self._end_watching()
        elif window is None and self._step >= self.start and not self._busy:
            self._open()
        if self._window is not None:
            self._window.steps += 1
            self._window.paused = False
            self._fetching = True
            self._flag_watched()

    @property
    def _busy(self) -> bool:
        return self._beside is not None and self._beside.busy

    def _open(self) -> None:
        trainer = self._trainer
        assert trainer is not None
        watch = self._new_watch(trainer, self._saw, lambda: self._fetching)
        self._window = SyncWindow(would_sync=watch.would_sync)
        if not watch.start():
            self._window = None
            self._end_watching()
            if self._output is not None:
                message = 'torch.cuda.set_sync_debug_mode("error") is set: every sync raises.'
                self._output.write(Note(step=self._step, name="syncs-raise", message=message))
            return
        self._watch = watch
        self._patches.put(trainer.strategy, "batch_to_device", self._moving)
        # Deep inside self.log, which torch.compile leaves alone, and only for these steps.
        self._patches.put(trainer.fit_loop.epoch_loop._results, "log", self._logging)

    def _close(self) -> None:
        window, self._window = self._window, None
        self._stop_watch()
        if window is None:
            return
        sites = window.sites()
        if self._on_sites is not None:
            self._on_sites(sites, window.steps)
        elif self._output is not None:
            for site in sites:
                self._output.write(site)
            note = Note(step=self._step, name=SYNC_STEPS_NOTE, value=window.steps)
            self._output.write(note)

    def _saw(self, operation: str) -> Any:
        return self._window.saw(operation) if self._window is not None else None

    def _moving(self, original: Any) -> Any:
        def batch_to_device(*args: Any, **kwargs: Any) -> Any:
            self._fetching = False
            return original(*args, **kwargs)

        return batch_to_device

    def _logging(self, original: Any) -> Any:
        def log(fx: str, name: str, *args: Any, **kwargs: Any) -> Any:
            if self._window is not None:
                self._window.logs(name)
            return original(fx, name, *args, **kwargs)

        return log

    def _stop_watch(self) -> None:
        watch, self._watch = self._watch, None
        self._fetching = False
        if watch is not None:
            watch.stop()
        self._patches.restore()

    def _end_watching(self) -> None:
        if self._borders is not None:
            self._borders.remove()
            self._borders = None

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made in training is in no run."""
        return self.__dict__ | dict.fromkeys(_OF_A_RUN) | {"_patches": Patches()}

    @override
    def _release(self) -> None:
        self._stop_watch()
        self._end_watching()
        self._window = None
        self._trainer = None


def watch_of(trainer: Trainer, report: Report, fetching: Callable[[], bool]) -> SyncWatch:
    """Return the watch for the device that a Trainer trains on."""
    if trainer.strategy.root_device.type == "cuda":
        return CudaSyncWatch(report)
    counters = [
        value
        for optimizer in trainer.optimizers
        for name, value in _state_items(optimizer)
        if name == "step" and isinstance(value, torch.Tensor)
    ]
    return CpuSyncWatch(report, on_host=counters, fetching=fetching)


def _state_items(optimizer: Any) -> list[tuple[str, Any]]:
    states = getattr(optimizer, "state", {}).values()
    return [item for state in states if isinstance(state, dict) for item in state.items()]
