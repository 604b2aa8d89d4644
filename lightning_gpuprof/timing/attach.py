"""Puts the tap and its regions into a Trainer for one run, and everything back afterwards."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.lightning import Trainer, fetches_inside, hook_of, is_kind
from lightning_gpuprof.adapters.loaders import LoaderParts
from lightning_gpuprof.records.phases import (
    EXPERIMENT,
    SAMPLER,
    STOP_CHECK,
    STOP_CHECK_METHOD,
    WORKERS,
    Phase,
)
from lightning_gpuprof.session.guard import attempt
from lightning_gpuprof.session.timed_calls import LoggingCall, TimedCalls
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.actions import PHASES, Action, class_of_state_key
from lightning_gpuprof.timing.phase_clock import Region
from lightning_gpuprof.timing.profiler_proxy import tap_of
from lightning_gpuprof.timing.regions import AroundBatches, ByExperiment, Context
from lightning_gpuprof.timing.step_timeline import WORKER_STARTUP, StepTimeline

FIT_PHASES = tuple(phase for phase in Phase if phase is not Phase.GARBAGE_COLLECTION)
"""What the tap itself tells apart; collections are another callback's to tell."""
EVALUATION_PHASES = (
    Phase.DATA_WAIT,
    Phase.HOST_TO_DEVICE,
    Phase.FORWARD,
    Phase.CALLBACKS,
    Phase.LOGGING,
    Phase.CHECKPOINT,
    Phase.OTHER,
)

LOGS = ("add_", "log")
"""How the methods of a logger's `experiment` begin that log something: TensorBoard's, others'."""
_BATCH_TRANSFER = (
    "on_before_batch_transfer",
    "transfer_batch_to_device",
    "on_after_batch_transfer",
)


class Tapping:
    """The tap in one Trainer.

    Args:
        trainer: The Trainer, in `setup`.
        timeline: Told of the borders of steps.
        evaluating: The session is validate, test or predict instead of fit.
        watch: See `ActionRegions`.
        batches: What is entered around each batch of a fit, where the tap sees them all.

    Attributes:
        sees_batches: Whether it does.

    Raises:
        AttributeError: The Trainer's profiler cannot be replaced.
    """

    def __init__(
        self,
        trainer: Any,
        timeline: StepTimeline,
        *,
        evaluating: bool,
        batches: AroundBatches,
        watch: Callable[[Region], Context] | None = None,
    ) -> None:
        self._trainer = trainer
        self._inner = trainer.profiler
        self._calls = TimedCalls()
        self._clock = timeline.clock
        self._loaders = LoaderParts(
            self._clock.region(Phase.DATA_WAIT, SAMPLER),
            self._clock.region(Phase.DATA_WAIT, WORKERS),
        )

        def names(state_key: str) -> tuple[str, bool]:
            return callback_name(trainer.callbacks, state_key)

        inside = fetches_inside(trainer.lightning_module)
        self.sees_batches = not evaluating and not inside
        self._watch = watch
        actions = ActionRegions(
            self._inner,
            timeline,
            names=names,
            evaluating=evaluating,
            idle=partial(is_idle, trainer),
            fetches_inside=inside,
            batches=batches if self.sees_batches else None,
            watch=watch,
        )
        self.tap = tap_of(self._inner, timeline, actions)
        trainer.profiler = self.tap
        if trainer.profiler is not self.tap:
            raise AttributeError(f"{type(trainer).__name__}.profiler cannot be replaced")
        try:
            self._time_loggers()
            if evaluating:
                self._time_evaluation()
            else:
                self._time_fit()
        except BaseException:
            self.restore()
            raise

    def time_manual_optimization(self) -> None:
        """Time what the Trainer's own actions leave out where the user calls the optimizers."""
        trainer, region = self._trainer, self._watched_region
        if trainer.lightning_module.automatic_optimization:
            return
        strategy = trainer.strategy
        self._calls.add(strategy, "backward", region(Phase.BACKWARD))
        self._calls.add(trainer.precision_plugin, "clip_gradients", region(Phase.CLIP_GRADIENTS))
        wrapped = attempt(lambda: list(strategy._lightning_optimizers), [])
        for optimizer in [*strategy.optimizers, *wrapped]:
            self._calls.add(optimizer, "zero_grad", region(Phase.ZERO_GRAD))

    def time_loader(self) -> None:
        """Split the wait for data into its parts from now on; for each epoch anew."""
        self._loaders.watch(self._trainer)

    def mark(self, marked: bool) -> None:
        """Time what training steps consist of from here on, or all but a few things no more."""
        self.tap.mark(marked)
        self._loaders.mark(marked)

    def restore(self) -> None:
        """Put the Trainer's profiler and methods back."""
        self._loaders.restore()
        self._calls.restore()
        if self._trainer.profiler is self.tap:
            self._trainer.profiler = self._inner
        self.tap.leave()

    def _watched_region(self, phase: Phase) -> Context:
        region = self._clock.region(phase)
        return region if self._watch is None else self._watch(region)

    def _time_loggers(self) -> None:
        for logger in self._trainer.loggers:
            region = self.tap.logging(type(logger).__name__)
            for method in ("log_metrics", "save"):
                self._calls.add(logger, method, region)
            # Lightning has made it by now, where it is to be made in this process.
            self._time_experiment(attempt(partial(getattr, logger, "experiment"), None))

    def _time_experiment(self, experiment: Any) -> None:
        """Time what the program may call by itself: `self.logger.experiment.add_image(...)`."""
        for method in dir(type(experiment)):
            if method.startswith(LOGS) and callable(getattr(type(experiment), method, None)):
                region = ByExperiment(self._clock, f"{EXPERIMENT}{method}")
                self._calls.add(experiment, method, region, kind=LoggingCall)

    def _time_fit(self) -> None:
        fit_loop = self._trainer.fit_loop
        startup = self._clock.region(Phase.DATA_WAIT, WORKER_STARTUP)
        self._calls.add(fit_loop, "setup_data", startup)
        self._time_module_log()
        epoch_loop = fit_loop.epoch_loop
        self._calls.add(epoch_loop.val_loop, "run", self.tap.validation())
        self._calls.add(epoch_loop.val_loop, "reset", self.tap.loader_start())
        if self._trainer.world_size > 1:
            stop_check = self._clock.region(Phase.OTHER, STOP_CHECK)
            self._calls.add(epoch_loop, STOP_CHECK_METHOD, stop_check)
        # Lightning 2.4 has no action for it; in others this region is around the action's own.
        self._calls.add(self._trainer, "save_checkpoint", self.tap.saving())

    def _time_module_log(self) -> None:
        """Time `self.log`, except in a compiled module, whose step would break at the region."""
        module = self._trainer.lightning_module
        if getattr(module, "_compiler_ctx", None) is None:
            self._calls.add(module, "log", self.tap.module_log())

    def _time_evaluation(self) -> None:
        loop = self._trainer._active_loop
        startup = self._clock.region(Phase.DATA_WAIT, WORKER_STARTUP)
        for method in ("setup_data", "reset"):
            self._calls.add(loop, method, startup)


def callback_of(callbacks: Iterable[Any], state_key: str) -> Any:
    """Return the callback that has a state key, or None.

    >>> callback_of([], "Slow") is None
    True
    """
    for callback in callbacks:
        if attempt(partial(getattr, callback, "state_key"), None) == state_key:
            return callback
    return None


def callback_name(callbacks: Iterable[Any], state_key: str) -> tuple[str, bool]:
    """Return a callback's name, numbered where several share a class, and if it checkpoints.

    >>> callback_name([], "Slow")
    ('Slow', False)
    """
    seen: Counter[str] = Counter()
    for callback in callbacks:
        name = type(callback).__name__
        seen[name] += 1
        if attempt(partial(getattr, callback, "state_key"), None) == state_key:
            number = seen[name]
            return name if number == 1 else f"{name}#{number}", is_kind(callback, "Checkpoint")
    return class_of_state_key(state_key), False


def is_idle(trainer: Any, action: Action) -> bool:
    """Tell whether an action runs a hook that does nothing of its own: Lightning's, left as it is.

    Such as `transfer_batch_to_device`, whose time is that of `batch_to_device` around it.
    """
    if action.name in _BATCH_TRANSFER and action.kind == "LightningModule":
        return hook_of(trainer.lightning_module, action.name) == f"DataHooks.{action.name}"
    if action.name in PHASES or not action.name.startswith("on_"):
        return False
    if action.kind == "Strategy":
        return hook_of(trainer.strategy, action.name) == f"Strategy.{action.name}"
    if action.kind == "Callback":
        callback = callback_of(trainer.callbacks, action.owner)
        return hook_of(callback, action.name) == f"Callback.{action.name}"
    if action.kind != "LightningModule":
        return False
    return hook_of(trainer.lightning_module, action.name) == f"ModelHooks.{action.name}"


def own_callback_names(trainer: Trainer) -> list[str]:
    """Return the names of this package's callbacks in a Trainer, and of their parts."""
    callbacks: list[Any] = getattr(trainer, "callbacks", [])
    names = []
    for callback in callbacks:
        if type(callback).__module__.startswith("lightning_gpuprof."):
            names.append(callback_name(callbacks, callback.state_key)[0])
            names.extend(type(part).__name__ for part in getattr(callback, "parts", ()))
    return names
