"""Puts the timing into a Trainer for the length of a session, and takes it out again."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from lightning_gpuprof.adapters.lightning import (
    EXPERIMENT_LOGS,
    LOGGING_METHODS,
    STOP_CHECK_METHOD,
)
from lightning_gpuprof.adapters.loaders import LoaderParts
from lightning_gpuprof.adapters.trainer_parts import TrainerParts
from lightning_gpuprof.records.phases import EXPERIMENT, SAMPLER, STOP_CHECK, WORKERS, Phase
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.safe_logger import SafeLogger
from lightning_gpuprof.runtime.wrap import CallInside, LoggingCall, Wrappers
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.profiler_proxy import proxy_of
from lightning_gpuprof.timing.regions import ByExperiment, IteratorStart, RegionLike
from lightning_gpuprof.timing.step_timeline import StepTimeline

FIT_PHASES = tuple(phase for phase in Phase if phase is not Phase.GARBAGE_COLLECTION)
"""The phases that the Trainer's actions show. Garbage collections are timed by a recorder."""

_Call = tuple[object, str, RegionLike, type[CallInside]]
"""Owner and name of a method, the region of its calls, and the class that takes its place."""


class ProxyTiming:
    """The profiler proxy in a Trainer, and regions around calls that have no profiler action."""

    def __init__(
        self,
        parts: TrainerParts,
        timeline: StepTimeline,
        actions: ActionRegions,
        loggers: Sequence[SafeLogger],
        *,
        wrappers: Wrappers,
        on_new_iterator: Callable[[], object],
    ) -> None:
        self._parts = parts
        self._timeline, self._clock = timeline, timeline.clock
        self._actions = actions
        self._loggers = loggers
        self._wrappers = wrappers
        self._on_new_iterator = on_new_iterator
        self.proxy = proxy_of(parts.profiler, timeline, actions)

    def attach(self) -> None:
        """Put the proxy in the profiler's place, and regions around methods."""
        trainer, parts = self._parts.trainer, self._parts
        trainer.profiler = self.proxy
        if trainer.profiler is not self.proxy:
            raise AttributeError(f"{type(trainer).__name__}.profiler cannot be replaced")
        for owner, name, region, kind in [*self._calls_of_loggers(), *self._calls_of_loops()]:
            self._wrappers.call_inside(owner, name, region, kind)
        # The workers of the first epoch start between this call and `on_train_start`.
        begin_startup = self._timeline.begin_startup
        self._wrappers.call_after(parts.loop, parts.before_first_iterators, begin_startup)

    def time_manual_optimization(self) -> None:
        """Time the backward pass of manual optimization, which has no profiler action."""
        if not self._parts.module.automatic_optimization:
            region = self._actions.watched(self._clock.region(Phase.BACKWARD))
            self._wrappers.call_inside(self._parts.trainer.strategy, "backward", region)

    def time_loader(self) -> None:
        """Split the wait for data into its parts. Called in every epoch, for its new iterators."""
        self._loaders.watch(self._parts.loop)
        self._watch_starts(self._parts.loop)

    def use(self, timed: bool) -> None:
        """Begin or end to time steps by phase."""
        self.proxy.use(timed)
        self._loaders.use(timed)

    def restore(self) -> None:
        """Restore the Trainer's profiler and methods."""
        self._loaders.restore()
        self._wrappers.restore()
        if self._parts.trainer.profiler is self.proxy:
            self._parts.trainer.profiler = self._parts.profiler
        self.proxy.leave()

    @cached_property
    def _loaders(self) -> LoaderParts:
        return LoaderParts(
            self._clock.region(Phase.DATA_WAIT, SAMPLER),
            self._clock.region(Phase.DATA_WAIT, WORKERS),
            IteratorStart(self._timeline, self._actions.fetching, self._on_new_iterator),
        )

    def _watch_starts(self, loop: Any) -> None:
        attempt(partial(self._loaders.watch_starts, loop), None)

    def _calls_of_loggers(self) -> Iterator[_Call]:
        for logger in self._loggers:
            region = self.proxy.logging(logger.kind)
            for method in LOGGING_METHODS:
                yield logger.logger, method, region, CallInside
            yield from self._calls_of_experiment(logger.experiment)

    def _calls_of_experiment(self, experiment: Any) -> Iterator[_Call]:
        """Yield the calls that a program makes: `self.logger.experiment.add_image(...)`."""
        kind = type(experiment)
        for method in dir(kind):
            if method.startswith(EXPERIMENT_LOGS) and callable(getattr(kind, method, None)):
                region = ByExperiment(self._clock, f"{EXPERIMENT}{method}")
                yield experiment, method, region, LoggingCall

    def _calls_of_loops(self) -> Iterator[_Call]:
        parts = self._parts
        if not parts.module_is_compiled:  # the region would break the compiled step's graph
            yield parts.module, "log", self.proxy.module_log(), CallInside
        val_loop = parts.val_loop
        if val_loop is None:  # this is an evaluation
            return
        yield val_loop, "run", self.proxy.validation(), CallInside
        watch = partial(self._watch_starts, val_loop)
        yield val_loop, "reset", self.proxy.loader_start(watch), CallInside
        if parts.trainer.world_size > 1:
            stop_check = self._clock.region(Phase.OTHER, STOP_CHECK)
            yield parts.batch_loop, STOP_CHECK_METHOD, stop_check, CallInside
