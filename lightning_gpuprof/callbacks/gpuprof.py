"""The callback that is composed of all others."""

import logging
import os
import time
from collections.abc import Callable
from typing import Any

from typing_extensions import Self, override

from lightning_gpuprof.adapters.callback_hooks import HOOKS
from lightning_gpuprof.adapters.lightning import (
    Callback,
    LightningModule,
    Trainer,
    is_kind,
    stage_of,
)
from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.callbacks.capture_control import CaptureControl
from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.device_monitor import DeviceMonitor
from lightning_gpuprof.callbacks.line_sampler import LineSampler
from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
from lightning_gpuprof.callbacks.module_timer import ModuleTimer
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.config import GpuProfConfig
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.sampling.worker_sampler import WorkerSampler
from lightning_gpuprof.records.schema import RunStart
from lightning_gpuprof.runtime.console import report_command, say
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import disable, guarded
from lightning_gpuprof.runtime.hooks import dispatcher_of
from lightning_gpuprof.runtime.switch import is_off, switch_off

_OWN_HOOKS = ("setup", "on_fit_end", "on_exception", "teardown")
_OF_TRAINING = (DeferredLoss, MemorySnapshot)
"""Parts that do nothing in an evaluation."""
DEFAULT = GpuProfConfig()
_LATER_HOOKS = tuple(hook for hook in HOOKS if hook != "setup")


class GpuProfCallback(Callback):
    """Shows where every millisecond of a training step goes, and what to change.

    `Trainer(callbacks=[GpuProfCallback()])` is all it takes: train as usual, then read the
    PROFILE tab of TensorBoard or `lightning-gpuprof report`. `validate`, `test` and `predict` are
    runs of their own, in folders of these names in the log dir.

    It consists of parts that can be used alone: `PhaseTimer`, `ProfilerSchedule`, `DeferredLoss`
    and others. A part that fails is switched off for the run, and training goes on. The environment
    variable `LIGHTNING_GPUPROF=off` makes every callback of this package do nothing.

    Args:
        config: All settings as one object. None switches everything off.
        clock: Returns nanoseconds; tests pass a fake.
        **settings: Single settings by name, instead of `config`: see `GpuProfConfig`.

    Raises:
        ConfigError: A setting is unknown or cannot work.
    """

    def __init__(
        self,
        config: GpuProfConfig | None = DEFAULT,
        *,
        clock: Callable[[], int] = time.perf_counter_ns,
        **settings: Any,
    ) -> None:
        if config is not None and not isinstance(config, GpuProfConfig):
            raise ConfigError(
                f"GpuProfCallback({config!r}) is not a GpuProfConfig. Pass settings by name, such "
                "as wait=3, or call GpuProfCallback.from_yaml(path)."
            )
        GpuProfConfig.check_names(settings, where="GpuProfCallback")
        # LightningCLI passes every setting, most of them with their defaults.
        single = GpuProfConfig(**settings)
        if DEFAULT not in (config, single):
            raise ConfigError(
                f"GpuProfCallback got config=... and also {', '.join(settings)}. Pass either."
            )
        config = single if config == DEFAULT else config
        self._compose(config, clock)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Self:
        """Return a callback with the settings of the `profiling:` section of a YAML file.

        With `profiling: null` it does nothing.
        """
        config = GpuProfConfig.from_yaml(path)
        if config is not None and config.unit is None and config.schedule():
            numbers = ", ".join(f"{name}: {value}" for name, value in config.schedule().items())
            say(f"[PROFILE] {path}: {numbers} count steps. For epochs, add `unit: epoch`.")
        callback = cls.__new__(cls)
        callback._compose(config, time.perf_counter_ns)
        return callback

    def _compose(self, config: GpuProfConfig | None, clock: Callable[[], int]) -> None:
        self.config = config
        self.parts: list[Callback] = [] if config is None or is_off() else _parts(config, clock)
        self._clock = clock
        self._context: RunContext | None = None
        if is_off():
            switch_off(self)
            return
        self._forward()
        if config is not None:
            # A Trainer calls `setup` first, which connects these hooks to the parts again.
            hooks = [hook for hook in _LATER_HOOKS if callable(getattr(self, hook))]
            self.__dict__.update(dict.fromkeys(hooks, self._without_setup))

    def _forward(self, stage: str = "fit") -> None:
        dispatcher_of(self).forward(self._parts_in(stage), but=_OWN_HOOKS, stage=stage)
        for hook in _OWN_HOOKS:
            self.__dict__.pop(hook, None)

    def _parts_in(self, stage: str) -> list[Callback]:
        if stage == "fit":
            return self.parts
        return [part for part in self.parts if not isinstance(part, _OF_TRAINING)]

    def _without_setup(self, *args: object, **kwargs: object) -> None:
        if not args or not is_kind(args[0], "Trainer"):
            self.on_after_setup()

    def on_after_setup(self, fabric: object = None, module: object = None) -> None:
        """Warn that nothing is measured. Only Fabric calls this hook; a Trainer does not."""
        if is_off():
            return
        # Fabric calls hooks with arguments of the program's choice, which the parts cannot handle.
        self.__dict__.update(dict.fromkeys(_LATER_HOOKS))
        say(
            "GpuProfCallback works inside Lightning's Trainer: it measures nothing in a loop of "
            "Fabric. Record that loop with torch.profiler, export_chrome_trace(), and read the "
            "file with `lightning-gpuprof analyze FILE`.",
            logging.WARNING,
        )

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.config is None:
            return
        stage = stage_of(trainer)
        self._forward(stage)
        self._context = RunContext.of(trainer, log_dir=self.config.log_dir, now=self._clock)
        self._context.at_start(self._describe)
        for part in self._parts_in(stage):
            self._set_up(part, trainer, pl_module)
        self._forward(stage)  # again, since some parts determine in `setup` which hooks they need

    def _describe(self, start: RunStart) -> None:
        if self.config is not None:
            start.config = self.config.to_dict()

    @override
    @guarded
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for part in self.parts[::-1]:
            part.on_fit_end(trainer, pl_module)
        self._show_report(trainer)

    @override
    @guarded
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for part in self._parts_in(stage_of(trainer))[::-1]:
            part.teardown(trainer, pl_module, stage)
        if stage != "fit":
            self._show_report(trainer)

    def _show_report(self, trainer: Trainer) -> None:
        if self.config is None or self._context is None or not self.config.report:
            return
        if trainer.is_global_zero and not getattr(trainer, "fast_dev_run", False):
            # Imported here, since the other ranks have no use for the reading side.
            from lightning_gpuprof.callbacks.fit_report import attach_report, show_report

            if show_report(self._context) and self.config.scalars:
                attach_report(self._context, trainer.loggers)

    @override
    @guarded
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        context = self._context
        # A run that fails in its first step has nothing to report.
        measured = context is not None and context.step > 1
        for part in self.parts[::-1]:
            part.on_exception(trainer, pl_module, exception)
        if context is None or not measured or not trainer.is_global_zero:
            return
        if not os.path.isdir(context.run_dir):
            return
        # Lightning ends the process at Ctrl-C: no on_fit_end, and no report, will follow.
        say(f"[PROFILE] the run ended early; what was measured: {report_command(context.run_dir)}")

    def _set_up(self, part: Callback, trainer: Trainer, pl_module: LightningModule) -> None:
        try:
            # To a part, an evaluation is a fit whose hooks have other names.
            part.setup(trainer, pl_module, "fit")
        except ConfigError as error:
            # If the schedule is the default, a device that cannot be profiled may still train.
            if not isinstance(part, ProfilerSchedule) or part.explicit:
                raise
            disable(part, error)


def _parts(config: GpuProfConfig, clock: Callable[[], int]) -> list[Callback]:
    """Return the parts for a configuration. The timer comes first, see `HookDispatcher.forward`."""
    parts: list[Callback] = []
    shared: dict[str, Any] = {"window": config.window, "console": config.console}
    if config.timing:
        parts.append(
            PhaseTimer(
                **shared,
                warmup=config.warmup_steps,
                scalars=config.scalars,
                device_marks=config.device_marks,
                overhead_budget=config.overhead_budget,
                nvtx=config.nvtx,
                clock=clock,
            )
        )
    if config.modules:
        parts.append(ModuleTimer(config.modules))
    # Without timing, no steps are counted.
    captures = config.max_captures if config.timing else 0
    windows = lines = None
    if config.trace:
        parts.append(
            windows := ProfilerSchedule(
                **config.schedule(),
                record_shapes=config.record_shapes,
                profile_memory=config.profile_memory,
                with_stack=config.with_stack,
                trace_format=config.trace_format,
                quiet_window=config.quiet_window,
                compiled=config.compiled,
                capture_range=config.capture_range,
                teardown=config.teardown,
                captures=captures > 0,
                clock=clock,
            )
        )
    if config.metrics:
        every = None if config.scalars else 0
        parts.append(DeferredLoss(config.metrics, window=config.window, log_every_n_steps=every))
    if config.batch_size:
        parts.append(BatchSizeAdvisor(**shared, band=(config.vram_low, config.vram_high)))
    if config.facts or config.outputs:
        parts.append(RunFacts(None if config.facts else (), outputs=config.outputs))
    if config.lines:
        workers = WorkerSampler(stays=captures > 0)
        parts.append(lines := LineSampler(warmup=config.warmup_steps, workers=workers))
    if config.device_stats:
        parts.append(DeviceMonitor(window=config.window))
    if config.memory_snapshot:
        parts.append(MemorySnapshot())
    if captures:
        parts.append(CaptureControl(windows, lines, max_captures=captures))
    return parts
