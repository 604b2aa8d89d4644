"""Puts timing into a Trainer for one session, by its profiler, and takes it out again."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.compiled_modules import is_compiled_whole
from lightning_gpuprof.adapters.lightning import (
    EXPERIMENT_LOGS,
    LOGGING_METHODS,
    STOP_CHECK_METHOD,
    data_loop,
)
from lightning_gpuprof.adapters.loaders import LoaderParts, before_first_iterators
from lightning_gpuprof.records.phases import EXPERIMENT, SAMPLER, STOP_CHECK, WORKERS, Phase
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.wrap import LoggingCall, Wrappers
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.profiler_proxy import proxy_of
from lightning_gpuprof.timing.regions import ByExperiment, IteratorStart
from lightning_gpuprof.timing.step_timeline import StepTimeline

FIT_PHASES = tuple(phase for phase in Phase if phase is not Phase.GARBAGE_COLLECTION)
"""Garbage collections are another part's to tell apart."""


class ProxyTiming:
    """The profiler proxy in one Trainer, and regions around the calls that have no action."""

    def __init__(
        self,
        trainer: Any,
        timeline: StepTimeline,
        actions: ActionRegions,
        *,
        wrappers: Wrappers,
        again: Callable[[], object],
    ) -> None:
        self._trainer = trainer
        self._loop = data_loop(trainer)
        self._inner = trainer.profiler
        self._wrappers = wrappers
        self._timeline, self._clock = timeline, timeline.clock
        self._actions = actions
        self._loaders = LoaderParts(
            self._clock.region(Phase.DATA_WAIT, SAMPLER),
            self._clock.region(Phase.DATA_WAIT, WORKERS),
            IteratorStart(timeline, actions.fetching, again),
        )
        self.proxy = proxy_of(self._inner, timeline, actions)
        trainer.profiler = self.proxy
        if trainer.profiler is not self.proxy:
            raise AttributeError(f"{type(trainer).__name__}.profiler cannot be replaced")
        try:
            self._time_loggers()
            self._time_loops()
        except BaseException:
            self.restore()
            raise

    def time_manual_optimization(self) -> None:
        """Time the backward pass where the user calls it: it has no action."""
        trainer = self._trainer
        if trainer.lightning_module.automatic_optimization:
            return
        region = self._actions.watched(self._clock.region(Phase.BACKWARD))
        self._wrappers.call_inside(trainer.strategy, "backward", region)

    def time_loader(self) -> None:
        """Split the wait for data into its parts from now on; for each epoch anew."""
        self._loaders.watch(self._loop)
        self._watch_starts(self._loop)

    def _watch_starts(self, loop: Any) -> None:
        attempt(partial(self._loaders.watch_starts, loop), None)

    def mark(self, marked: bool) -> None:
        """Time the parts of training steps from here on, or no more."""
        self.proxy.mark(marked)
        self._loaders.mark(marked)

    def restore(self) -> None:
        """Put the Trainer's profiler and methods back."""
        self._loaders.restore()
        self._wrappers.restore()
        if self._trainer.profiler is self.proxy:
            self._trainer.profiler = self._inner
        self.proxy.leave()

    def _time_loggers(self) -> None:
        for logger in self._trainer.loggers:
            region = self.proxy.logging(type(logger).__name__)
            for method in LOGGING_METHODS:
                self._wrappers.call_inside(logger, method, region)
            # Lightning has made it by now, where it is to be made in this process.
            self._time_experiment(attempt(partial(getattr, logger, "experiment"), None))

    def _time_experiment(self, experiment: Any) -> None:
        """Time the calls that a program makes itself: `self.logger.experiment.add_image(...)`."""
        kind = type(experiment)
        for method in dir(kind):
            if method.startswith(EXPERIMENT_LOGS) and callable(getattr(kind, method, None)):
                region = ByExperiment(self._clock, f"{EXPERIMENT}{method}")
                self._wrappers.call_inside(experiment, method, region, kind=LoggingCall)

    def _time_loops(self) -> None:
        # The first epoch's workers start between this call and `on_train_start`.
        begin_startup = self._timeline.begin_startup
        self._wrappers.call_after(self._loop, before_first_iterators(self._loop), begin_startup)
        module = self._trainer.lightning_module
        if not is_compiled_whole(module):  # its step would break at the region
            self._wrappers.call_inside(module, "log", self.proxy.module_log())
        epoch_loop = getattr(self._loop, "epoch_loop", None)
        if epoch_loop is None:  # an evaluation
            return
        self._wrappers.call_inside(epoch_loop.val_loop, "run", self.proxy.validation())
        watch = partial(self._watch_starts, epoch_loop.val_loop)
        self._wrappers.call_inside(epoch_loop.val_loop, "reset", self.proxy.loader_start(watch))
        if self._trainer.world_size > 1:
            stop_check = self._clock.region(Phase.OTHER, STOP_CHECK)
            self._wrappers.call_inside(epoch_loop, STOP_CHECK_METHOD, stop_check)
