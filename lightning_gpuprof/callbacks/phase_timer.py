"""Times the phases of every step."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.device_events import DeviceEvents, device_events
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.adapters.trainer_parts import trainer_parts
from lightning_gpuprof.config import check_log_dir
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.facts import SlowDown
from lightning_gpuprof.runtime.console import slow_down_line
from lightning_gpuprof.runtime.context import RunContext, StepTiming
from lightning_gpuprof.runtime.guard import guarded, guarded_call
from lightning_gpuprof.runtime.hooks import dispatcher_in
from lightning_gpuprof.runtime.recording import RecordingCallback, offer_timing
from lightning_gpuprof.runtime.safe_logger import SafeLogger
from lightning_gpuprof.timing.batches import shape_of
from lightning_gpuprof.timing.fit_end import FitEnd
from lightning_gpuprof.timing.regions import check_nvtx
from lightning_gpuprof.timing.run import TimingRun
from lightning_gpuprof.timing.window_writer import TimerSettings

_PREDICT_HOOK = "on_predict_batch_end"


class PhaseTimer(RecordingCallback):
    """Records how long each phase of every training step takes, on the host clock.

    Every nanosecond of a fit is charged to the innermost action that the Trainer runs at the time.
    Therefore the phases of a step add up to its wall time, and callbacks and loggers appear by
    their names. Host time is launch time: a GPU may still be running what a phase has queued. This
    callback never waits for the device. `validate`, `test` and `predict` are timed only as part of
    a `GpuProfCallback`.

    Costs: 2 us per step net, at most `overhead_budget` of it by its own clock.
    Touches: takes the place of the Trainer's `profiler` for the length of the fit, and hands every
        call on. Wraps methods whose calls the profiler does not show, on single objects: `log` of
        the module, and `log_metrics`, `log_hyperparams`, `log_graph`, `save` and the writer's
        methods of each logger, since logging within a step would count as forward;
        `_load_combined_loader_states` of the fit's loop and `setup_data` of an evaluation's, after
        which the first workers start; `run` and `reset` of the validation loop; `_get_iterator` of
        loaders with workers, which may start within an epoch; with manual optimization `backward`
        of the strategy; the sampler and the queue of the loader's iterator; with several ranks
        their check for SIGTERM. Records events on a GPU.
    When: every step.
    Switch: timing=False

    Args:
        window: Steps per record and `[PROFILE]` line, early in a run. Later there is one for up to
            ten times as many steps, or for fifteen seconds. If steps are slow, the first line
            appears within ten seconds, and then one every thirty seconds.
        console: Whether rank 0 shows that line.
        scalars: Whether the Trainer's loggers receive the medians of a window as `gpuprof/*`, at
            most once a second.
        warmup: This many first steps are flagged as warm-up.
        device_marks: Whether to put marks on the device, if it has events. They show device time
            per phase, and how far the device is behind the host. Tests pass the events of a fake
            device.
        overhead_budget: The share of a step's time that the timing may cost by its own clock. If it
            costs more, only one step in several, up to 20, is timed by phase, and the console says
            so. Device marks have a budget of the same size. What other callbacks of this package do
            once in many steps is not counted.
        nvtx: Whether every phase is an NVTX range too (rocTX on AMD), which nsys and rocprof show.
        log_dir: The log dir for the records, instead of that of the loggers.
        clock: Returns nanoseconds; tests pass a fake.

    Raises:
        ConfigError: A number cannot work; `log_dir` is a URL; in `setup`, the Trainer has a second
            `PhaseTimer`, or `nvtx` is set and this torch has none.
    """

    def __init__(
        self,
        *,
        window: int = 50,
        console: bool = True,
        scalars: bool = True,
        warmup: int = 5,
        device_marks: DeviceEvents | bool = True,
        overhead_budget: float = 0.005,
        nvtx: bool = False,
        log_dir: str | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        super().__init__()
        if window < 1:
            raise ConfigError(
                f"PhaseTimer(window={window}) would never write a record. Pass the number of "
                "steps per record, 1 or more; 50 is the default."
            )
        if warmup < 0:
            raise ConfigError(
                f"PhaseTimer(warmup={warmup}) is no number of steps. Pass 0 to have no warm-up."
            )
        check_log_dir(log_dir)
        self.settings = TimerSettings(window, warmup, console, scalars, overhead_budget, nvtx)
        self.device_marks = device_marks
        self.log_dir = log_dir
        self.clock = clock
        self._run: TimingRun | None = None

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._context = None
        if stage != "fit":
            return
        if self.settings.nvtx:
            check_nvtx()
        self._context = RunContext.of(trainer, log_dir=self.log_dir, now=self.clock)
        self._context.at_end(self._timing_ends, last=True)
        self.__dict__.pop(_PREDICT_HOOK, None)
        if self._context.stage != "predict":  # the Trainer skips a hook that is None
            self.__dict__[_PREDICT_HOOK] = None
        hooks = dispatcher_in(trainer, self)
        calls = hooks.let_caller_count()
        loggers = [SafeLogger(logger, self._context) for logger in trainer.loggers]
        # Everything is read from the Trainer before anything in it is changed.
        parts = trainer_parts(trainer)
        events = device_events(trainer.strategy.root_device) if self.device_marks else None
        self._run = TimingRun(
            parts,
            self._context,
            self.settings,
            loggers,
            shield=partial(guarded_call, self),
            calls=calls,
            fit_end=FitEnd(trainer, hooks.host, self._fit_has_ended),
            events=events if isinstance(self.device_marks, bool) else self.device_marks,
        )
        self._run.attach()
        offer_timing(trainer, self._run)

    @override
    def use_timing(self, timing: StepTiming) -> None:
        """Refuse the timing of another `PhaseTimer`."""
        if timing is not self._run:
            raise ConfigError(
                "This Trainer has two PhaseTimers. GpuProfCallback contains one: remove the other."
            )

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._run is not None:
            self._run.begin_training(trainer.current_epoch)

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._run is not None:
            self._run.begin_epoch(trainer.current_epoch)

    @override
    @guarded
    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
        batch_idx: int, dataloader_idx: int = 0,
    ) -> None:  # fmt: skip
        """Note the size of the batch, which the loop of `predict` does not store."""
        if self._run is not None:
            self._run.timeline.shapes[-1] = shape_of(batch)

    @guarded
    def on_slow_down(self, slow_down: SlowDown) -> None:
        """Show once that training has become slower."""
        if slow_down.lasts and self.settings.console and self._context is not None:
            self._context.inform(slow_down_line(slow_down))

    @override
    @guarded
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._leave(None)

    @guarded
    def _fit_has_ended(self, error: BaseException | None) -> None:
        """End the session of a fit at whose end Lightning has called no hook of this callback."""
        self._leave(error)

    @guarded
    def _timing_ends(self, status: str, error: BaseException | None) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish(status, error)

    @override
    def _release(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.restore()
