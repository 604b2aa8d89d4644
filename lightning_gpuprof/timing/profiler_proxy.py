"""A profiler in the place of the Trainer's own that charges each action's time to its phase."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Profiler
from lightning_gpuprof.records.phases import LOADER_START, SELF_LOG, Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.regions import Calling, Profile, RegionLike, Regions
from lightning_gpuprof.timing.step_timeline import StepTimeline


class ProfilerProxy(Profiler):
    """Hands every call on to the user's own profiler and keeps the phase clock's regions.

    `profile`, in `__slots__`, returns a cached region for each action. There is no `__getattr__`,
    which would slow every lookup down (ADR 42): other attributes are in the inner profiler's dict,
    which this proxy shares. For profilers whose class has more, see `proxy_of`.
    """

    __slots__ = (
        "_actions", "_clock", "_inner", "_regions", "_stepping", "_timeline", "profile",
    )  # fmt: skip
    profile: Profile  # type: ignore[assignment] # a slot in the place of the method
    """Returns the context manager of an action."""

    def __init__(self, inner: Any, timeline: StepTimeline, actions: ActionRegions) -> None:
        # Profiler.__init__ is left out: dirpath, filename and the like are the inner profiler's.
        self._inner = inner
        self._share()
        self._timeline = timeline
        self._clock = timeline.clock
        self._actions = actions
        self._stepping = actions.training
        self._look_up(actions.training)

    def _share(self) -> None:
        self.__dict__ = self._inner.__dict__

    @override
    def start(self, action_name: str) -> None:
        """Open an action's region: once a step for the fetch."""
        self._regions[action_name].__enter__()

    @override
    def stop(self, action_name: str) -> None:
        """Close an action's region; do nothing where the action was never started."""
        self._regions[action_name].__exit__(None, None, None)

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

    @override
    def __del__(self) -> None:
        """Nothing to close: the inner profiler closes its own files."""

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _inner_alone, (self._inner,)

    def validation(self) -> RegionLike:
        """Return the region of a whole validation run inside a fit."""
        region = self._clock.region(Phase.VALIDATION)
        flagging = Calling(region, partial(self._timeline.flag, StepFlag.VALIDATION))
        return _Validation(self, self._actions.watched(flagging))

    def logging(self, name: str) -> RegionLike:
        """Return the region of a call to a logger."""
        region = self._clock.region(Phase.LOGGING, name)
        return Calling(region, partial(self._timeline.flag, StepFlag.LOGGED))

    def module_log(self) -> RegionLike:
        """Return the region of the module's `self.log`: logging, or validation's own inside it."""
        training = self._clock.region(Phase.LOGGING, SELF_LOG)
        return _ByLoop(self, training, self._clock.region(Phase.VALIDATION))

    def loader_start(self, watch: Callable[[], object]) -> RegionLike:
        """Return the region in which a validation's loader starts, also in a resumed run.

        `watch` is called before the loader starts.
        """

        def begin() -> None:
            watch()
            self._actions.fetching.first = True

        start = Calling(self._clock.region(Phase.VALIDATION, LOADER_START), begin)
        return _ByLoop(self, nullcontext(), start)

    @property
    def validating(self) -> bool:
        """Whether a validation inside a fit is running."""
        return self._regions is self._actions.validating

    def use(self, timed: bool) -> None:
        """Time the actions of training steps from here on, or only the few that are rare."""
        self._stepping = self._actions.training if timed else self._actions.passing
        self._look_up(self._stepping)

    def validate(self, validating: bool) -> None:
        """Time actions as a validation's inside a fit, or again as those of training steps."""
        self._look_up(self._actions.validating if validating else self._stepping)

    def leave(self) -> None:
        """Hand actions on to the inner profiler alone, also those that decorate functions."""
        self.profile = self._actions.profile = self._inner.profile

    def _look_up(self, regions: Regions) -> None:
        # The dict's own lookup: a method of this class would be a further call.
        self._regions = regions
        self.profile = self._actions.profile = regions.__getitem__


class ForwardingProxy(ProfilerProxy):
    """Stands in for a profiler that acts, or whose class has more than Lightning's base class."""

    __slots__ = ()

    @override
    def _share(self) -> None:
        """Leave the inner profiler's dict alone: each attribute is handed on."""

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        if name in ProfilerProxy.__slots__:
            super().__setattr__(name, value)
        else:
            setattr(self._inner, name, value)


def proxy_of(inner: Any, timeline: StepTimeline, actions: ActionRegions) -> ProfilerProxy:
    """Return a proxy in the place of a profiler, the lightest that will do."""
    more = set(dir(type(inner))) - set(dir(Profiler))
    plain = not actions.hands_on and not more and hasattr(inner, "__dict__")
    return (ProfilerProxy if plain else ForwardingProxy)(inner, timeline, actions)


class _ByLoop:
    """Opens one region in training and another in a validation."""

    def __init__(self, proxy: ProfilerProxy, training: RegionLike, validating: RegionLike) -> None:
        self._proxy = proxy
        self._training, self._validating = training, validating

    def __enter__(self) -> None:
        (self._validating if self._proxy.validating else self._training).__enter__()

    def __exit__(self, *raised: Any) -> None:
        (self._validating if self._proxy.validating else self._training).__exit__(*raised)


class _Validation:
    """A validation's region; inside it, actions open the regions of a validation."""

    def __init__(self, proxy: ProfilerProxy, region: RegionLike) -> None:
        self._proxy = proxy
        self._region = region

    def __enter__(self) -> None:
        self._region.__enter__()
        self._proxy.validate(True)

    def __exit__(self, *raised: Any) -> None:
        self._proxy.validate(False)
        self._region.__exit__(*raised)


def _inner_alone(inner: Any) -> Any:
    return inner
