"""Regions beside the plain ones: at borders, for checkpoints, loggers and the user's profiler."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from typing_extensions import override

from lightning_gpuprof.records.phases import (
    EXPERIMENT,
    FIRST_BATCH,
    LOADER_START,
    NEXT_BATCHES,
    Phase,
)
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.phase_clock import (
    LOG_LIMIT,
    Decorator,
    PartRegion,
    PhaseClock,
    Region,
    Slot,
)
from lightning_gpuprof.timing.region_paths import close_code, open_code
from lightning_gpuprof.timing.step_timeline import StepTimeline

Context = AbstractContextManager[Any]
Profile = Callable[[str], Context]
_Kind = type[BaseException] | None
_Error = BaseException | None
_Trace = TracebackType | None


class Regions(dict[str, Context]):
    """Makes each action's region when it is first asked for."""

    def __init__(self, make: Callable[[str], Context]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, action_name: str) -> Context:
        region = self[action_name] = self._make(action_name)
        return region


class AtBorder(Region):
    """Calls the timeline at a border before it opens."""

    __slots__ = ("_reach",)

    def __init__(self, region: Region, reach: Callable[[], None]) -> None:
        super().__init__(region.clock, region.slot)
        self._reach = reach

    @override
    def __enter__(self) -> None:
        self._reach()
        Region.__enter__(self)


class EpochLoop(Region):
    """The loop over an epoch's batches."""

    __slots__ = ("_timeline",)

    def __init__(self, region: Region, timeline: StepTimeline) -> None:
        super().__init__(region.clock, region.slot)
        self._timeline = timeline

    @override
    def __enter__(self) -> None:
        super().__enter__()
        self._timeline.begin_epoch()

    @override
    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None:
        self._timeline.end_epoch(unfinished=kind is not None)
        super().__exit__(kind, error, trace)


class ValidationFetch(Region):
    """A validation fetches a batch: the first is charged to one slot, the others to another.

    It settles a long log: a validation may run any number of batches.

    Attributes:
        first: The next fetch is the first; set by `LoaderStart`.
    """

    __slots__ = ("_pairs", "first")

    def __init__(self, clock: PhaseClock) -> None:
        slots = [clock.slot(Phase.VALIDATION, part) for part in (NEXT_BATCHES, FIRST_BATCH)]
        super().__init__(clock, slots[False])
        self._pairs = [(open_code(slot), close_code(slot)) for slot in slots]
        self.first = True

    @override
    def __enter__(self) -> None:
        self._opens, self._closes = self._pairs[self.first]
        self.first = False
        if len(self.clock.codes) > LOG_LIMIT:
            self.clock.settle()
        super().__enter__()


class LoaderStart(Region):
    """A validation makes its loader's iterator; the next fetch is that of its first batch."""

    __slots__ = ("_fetch",)

    def __init__(self, fetch: ValidationFetch) -> None:
        super().__init__(fetch.clock, fetch.clock.slot(Phase.VALIDATION, LOADER_START))
        self._fetch = fetch

    @override
    def __enter__(self) -> None:
        self._fetch.first = True
        super().__enter__()


class Idle(Decorator):
    """Stands in for the region of an empty hook: its time is its caller's."""

    __slots__ = ()

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None: ...


class NotTimed(Idle):
    """Stands in for an action of the program's own in a step that is not marked."""

    __slots__ = ("_name", "_profile")

    def __init__(self, name: str, profile: Profile) -> None:
        self._name = name
        self._profile = profile

    @override
    def now(self) -> Context:
        return self._profile(self._name)

    @override
    def __enter__(self) -> str:
        return self._name


class OwnAction(PartRegion):
    """An action of the program's own; functions that it decorates ask `profile` at each call."""

    __slots__ = ("_profile",)

    def __init__(self, clock: PhaseClock, name: str, profile: Profile) -> None:
        super().__init__(clock, name)
        self._profile = profile

    @override
    def now(self) -> Context:
        return self._profile(self.name)


class Flagging(Region):
    """Sets a flag of the step in which it is entered."""

    __slots__ = ("_flag", "_timeline")

    def __init__(self, region: Region, timeline: StepTimeline, flag: StepFlag) -> None:
        super().__init__(region.clock, region.slot)
        self._timeline = timeline
        self._flag = flag

    @override
    def __enter__(self) -> None:
        self._timeline.flags |= self._flag
        super().__enter__()


class Saving(PartRegion):
    """A checkpoint is being saved: charged to the callback that asked for it, by name."""

    __slots__ = ("_timeline",)

    def __init__(self, timeline: StepTimeline) -> None:
        super().__init__(timeline.clock, "save_checkpoint")
        self._timeline = timeline

    @override
    def __enter__(self) -> None:
        self._timeline.flags |= StepFlag.CHECKPOINT
        super().__enter__()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        by_callback = outer.phase in (Phase.CALLBACKS, Phase.CHECKPOINT)
        return Slot(Phase.CHECKPOINT, (by_callback and outer.part) or self.name)


class ByExperiment(PartRegion):
    """The program calls a logger's `experiment` itself: in a step that is logging.

    The logger's own calls of it stay the logger's, and those of callbacks and hooks theirs.
    """

    __slots__ = ()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        if outer.phase is Phase.FORWARD:
            return Slot(Phase.LOGGING, self.name)
        nested = (outer.part or "").startswith(EXPERIMENT)  # one such call makes another
        if outer.phase is Phase.VALIDATION and not nested:
            return Slot(Phase.VALIDATION, self.name)
        return outer


class HandingOn(Decorator):
    """Opens a region and the same action of the user's own profiler."""

    __slots__ = ("_action", "_inner", "_opened", "_overridden", "_profile", "region")

    def __init__(self, region: Context, inner: Any, action: str, profile: Profile) -> None:
        self.region = region
        self._inner = inner
        self._action = action
        self._profile = profile
        # Only a profiler that changed `profile` itself needs its context: in others it is `start`
        # and `stop`.
        self._overridden = type(inner).profile.__qualname__ != "Profiler.profile"
        self._opened: list[Context] = []

    @override
    def now(self) -> Context:
        return self._profile(self._action)

    def __enter__(self) -> str:
        self.region.__enter__()
        try:
            if self._overridden:
                context = self._inner.profile(self._action)
                context.__enter__()
                self._opened.append(context)
            else:
                self._inner.start(self._action)
        except BaseException:
            self.region.__exit__(None, None, None)
            raise
        return self._action

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None:
        try:
            if self._overridden:
                self._opened.pop().__exit__(kind, error, trace)
            else:
                self._inner.stop(self._action)
        finally:
            self.region.__exit__(kind, error, trace)
