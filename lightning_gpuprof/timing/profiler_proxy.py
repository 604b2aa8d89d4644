"""Takes the place of the Trainer's profiler and charges the time of every action to its phase."""

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
    """Opens a region for every action, and hands all calls on to the user's own profiler.

    `profile` is in `__slots__` and returns a cached region. There is no `__getattr__`, which would
    slow every lookup down (ADR 42). Instead this proxy shares the dict of the inner profiler, in
    which all other attributes are. That is not enough for some profilers, see `proxy_of`.
    """

    __slots__ = (
        "_actions", "_clock", "_inner", "_regions", "_stepping", "_timeline", "profile",
    )  # fmt: skip
    profile: Profile  # type: ignore[assignment] # a slot in the place of the method
    """Returns the context manager of an action."""

    def __init__(self, inner: Any, timeline: StepTimeline, actions: ActionRegions) -> None:
        # `Profiler.__init__` is not called, since dirpath and so on are in the inner profiler.
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
        """Open an action's region. Lightning calls this once per step, for the fetch."""
        self._regions[action_name].__enter__()

    @override
    def stop(self, action_name: str) -> None:
        """Close an action's region. Does nothing if the action was not started."""
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
        """Do nothing, since the inner profiler closes its own files."""

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
        """Return the region of the module's `self.log`: logging, or validation inside of one."""
        training = self._clock.region(Phase.LOGGING, SELF_LOG)
        return _ByLoop(self, training, self._clock.region(Phase.VALIDATION))

    def loader_start(self, watch: Callable[[], object]) -> RegionLike:
        """Return the region in which a validation's loaders start their workers.

        `watch` is called before that.
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
        """Time all actions of the following training steps, or only the few that are rare."""
        self._stepping = self._actions.training if timed else self._actions.passing
        self._look_up(self._stepping)

    def validate(self, validating: bool) -> None:
        """Time actions as those of a validation inside a fit, or again as those of training."""
        self._look_up(self._actions.validating if validating else self._stepping)

    def leave(self) -> None:
        """Only hand actions on to the inner profiler, including those that decorate functions."""
        self.profile = self._actions.profile = self._inner.profile

    def _look_up(self, regions: Regions) -> None:
        # This is the lookup of the dict itself, since a method of this class would be another call.
        self._regions = regions
        self.profile = self._actions.profile = regions.__getitem__


class ForwardingProxy(ProfilerProxy):
    """Takes the place of a profiler that does more than Lightning's base class."""

    __slots__ = ()

    @override
    def _share(self) -> None:
        """Share nothing, since this proxy hands attributes on one by one."""

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
    """Return a proxy for a profiler: a `ProfilerProxy` if that is enough."""
    more = set(dir(type(inner))) - set(dir(Profiler))
    is_plain = not actions.is_profiler_used and not more and hasattr(inner, "__dict__")
    return (ProfilerProxy if is_plain else ForwardingProxy)(inner, timeline, actions)


class _ByLoop:
    """Opens one region during training, and another during a validation."""

    def __init__(self, proxy: ProfilerProxy, training: RegionLike, validating: RegionLike) -> None:
        self._proxy = proxy
        self._training, self._validating = training, validating

    def __enter__(self) -> None:
        (self._validating if self._proxy.validating else self._training).__enter__()

    def __exit__(self, *raised: Any) -> None:
        (self._validating if self._proxy.validating else self._training).__exit__(*raised)


class _Validation:
    """The region of a validation, inside which actions open their regions for validation."""

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
