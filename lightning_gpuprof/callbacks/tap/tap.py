"""A profiler in the place of the Trainer's own that charges each action's time to its phase."""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Profiler
from lightning_gpuprof.callbacks.tap.action_regions import ActionRegions
from lightning_gpuprof.callbacks.tap.tap_regions import (
    Context,
    Flagging,
    HandingOn,
    Idle,
    LoaderStart,
    Regions,
    Saving,
)
from lightning_gpuprof.probes.clock.step_timeline import StepTimeline
from lightning_gpuprof.records.phases import SELF_LOG, Phase
from lightning_gpuprof.records.schema import StepFlag


class ProfilerTap(Profiler):
    """Hands every call on to the user's own profiler and keeps the phase clock's regions.

    `profile` gives one cached context object per action name instead of a new generator each
    time, which makes up for what the clock costs.

    Args:
        inner: The profiler whose place this takes.
        timeline: Told of the borders of steps; its clock is charged.
        actions: The regions of actions.
    """

    def __init__(self, inner: Any, timeline: StepTimeline, actions: ActionRegions) -> None:
        # Profiler.__init__ is left out: dirpath, filename and the like are the inner one's.
        self._inner = inner
        self._timeline = timeline
        self._clock = timeline.clock
        self._actions = actions
        if actions.hands_on:
            self.__dict__.update(start=self._start_both, stop=self._stop_both)
        self._stepping = actions.training
        self._look_up(actions.training)

    @override
    def start(self, action_name: str) -> None:
        """Open an action's region."""
        self._regions[action_name].__enter__()

    @override
    def stop(self, action_name: str) -> None:
        """Close an action's region; one that was never started is left alone."""
        self._regions[action_name].__exit__(None, None, None)

    @override
    def profile(self, action_name: str) -> Any:
        """Return the context manager of an action."""
        return self._regions[action_name]

    @override
    def summary(self) -> str:
        """Return the inner profiler's summary."""
        return str(self._inner.summary())

    @override
    def describe(self) -> None:
        """Let the inner profiler report."""
        self._inner.describe()

    @override
    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Set the inner profiler up."""
        self._inner.setup(stage=stage, local_rank=local_rank, log_dir=log_dir)

    @override
    def teardown(self, stage: str | None) -> None:
        """Tear the inner profiler down."""
        self._inner.teardown(stage=stage)

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        else:
            setattr(self._inner, name, value)

    @override
    def __del__(self) -> None:
        """Nothing to close: the inner profiler closes its own files."""

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _inner_alone, (self._inner,)

    def validation(self) -> Context:
        """Return the region of a whole validation run inside a fit."""
        region = self._clock.region(Phase.VALIDATION)
        return _Validation(
            self, self._actions.watched(Flagging(region, self._timeline, StepFlag.VALIDATION))
        )

    def logging(self, name: str) -> Context:
        """Return the region of a call to a logger."""
        region = self._clock.region(Phase.LOGGING, name)
        return Flagging(region, self._timeline, StepFlag.LOGGED)

    def module_log(self) -> Context:
        """Return the region of the module's `self.log`: logging, or validation's own inside it."""
        training = self._clock.region(Phase.LOGGING, SELF_LOG)
        return _ByLoop(self, training, self._clock.region(Phase.VALIDATION))

    def loader_start(self) -> Context:
        """Return the region in which a validation's loader starts.

        A run that is resumed starts it as well, to count its batches: that is no validation's.
        """
        return _ByLoop(self, Idle(), LoaderStart(self._actions.fetching))

    @property
    def validating(self) -> bool:
        """Whether a validation inside a fit is running."""
        return self._regions is self._actions.validating

    def saving(self) -> Context:
        """Return the region of a checkpoint being saved."""
        return Saving(self._clock, self._timeline)

    def mark(self, marked: bool) -> None:
        """Time the actions of training steps from here on, or all but a few of them no more."""
        self._stepping = self._actions.training if marked else self._actions.passing
        self._look_up(self._stepping)

    def validate(self, validating: bool) -> None:
        """Time actions as those of a validation inside a fit, or again as those of its steps."""
        self._look_up(self._actions.validating if validating else self._stepping)

    def leave(self) -> None:
        """Leave it to the inner profiler, also for functions that an action decorates."""
        self.__dict__["profile"] = self._actions.profile = self._inner.profile

    def _look_up(self, regions: Regions) -> None:
        # The dict's own lookup as an instance attribute: the Trainer calls it 30 times a step.
        self._regions = regions
        self.__dict__["profile"] = self._actions.profile = regions.__getitem__

    def _start_both(self, action_name: str) -> None:
        _region_of(self._regions[action_name]).__enter__()
        self._inner.start(action_name)

    def _stop_both(self, action_name: str) -> None:
        self._inner.stop(action_name)
        _region_of(self._regions[action_name]).__exit__(None, None, None)


class _ByLoop:
    def __init__(self, tap: ProfilerTap, training: Context, validating: Context) -> None:
        self._tap = tap
        self._training, self._validating = training, validating

    def __enter__(self) -> None:
        (self._validating if self._tap.validating else self._training).__enter__()

    def __exit__(self, *raised: Any) -> None:
        (self._validating if self._tap.validating else self._training).__exit__(*raised)


class _Validation:
    def __init__(self, tap: ProfilerTap, region: Context) -> None:
        self._tap = tap
        self._region = region

    def __enter__(self) -> None:
        self._region.__enter__()
        self._tap.validate(True)

    def __exit__(self, *raised: Any) -> None:
        self._tap.validate(False)
        self._region.__exit__(*raised)


_OWN = frozenset("_inner _timeline _clock _actions _stepping _regions".split())


def _region_of(context: Context) -> Context:
    return context.region if isinstance(context, HandingOn) else context


def _inner_alone(inner: Any) -> Any:
    return inner
