"""The regions that the tap needs beside the plain ones: at borders, for savings, for loggers."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from typing_extensions import override

from lightning_gpuprof.adapters.profiler import traced
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
    Inside,
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


class Traced:
    """A region that shows in a trace that records just now, by this name."""

    def __init__(self, region: Context, name: str) -> None:
        self.region = region
        self._name = name
        self._span: Context | None = None

    def __enter__(self) -> None:
        self.region.__enter__()
        self._span = traced(self._name)
        if self._span is not None:
            self._span.__enter__()

    def __exit__(self, *raised: Any) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(None, None, None)
        self.region.__exit__(*raised)


class AtBorder(Region):
    """Tells the timeline of a border before it opens."""

    __slots__ = ("_tell",)

    def __init__(self, region: Region, tell: Callable[[], None]) -> None:
        super().__init__(region.clock, region.slot)
        self._tell = tell

    @override
    def __enter__(self) -> None:
        self._tell()
        Region.__enter__(self)


class AroundBatches(Protocol):
    """Makes what is entered around each training batch, without the cost of hooks."""

    def marked(self, region: Region, own: int) -> Region:
        """Return that of marked steps; what it takes itself is charged to the slot `own`."""
        ...

    def passed_over(self) -> Context:
        """Return that of steps that are not marked."""
        ...


class Settling(Region):
    """Settles the clock's log where it has grown long: validation may run any number of batches."""

    __slots__ = ()

    @override
    def __enter__(self) -> None:
        if len(self.clock.codes) > LOG_LIMIT:
            self.clock.settle()
        Region.__enter__(self)


class ValidationFetch(Settling):
    """A validation fetches a batch: the first is charged to one slot, the others to another.

    Attributes:
        first: It is the first; `LoaderStart` says so.
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
        super().__enter__()


class LoaderStart(Region):
    """A validation makes its loader's iterator; what is fetched next is its first batch."""

    __slots__ = ("_fetch",)

    def __init__(self, fetch: ValidationFetch) -> None:
        super().__init__(fetch.clock, fetch.clock.slot(Phase.VALIDATION, LOADER_START))
        self._fetch = fetch

    @override
    def __enter__(self) -> None:
        self._fetch.first = True
        super().__enter__()


class Idle(Decorator):
    """Stands in for the region of a hook that nobody has written: its time is its caller's."""

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


class OwnAction(Inside):
    """An action of the program's own.

    Args:
        clock: Charged.
        name: The action's.
        profile: Returns what it is at any later time, for functions that it decorates.
    """

    __slots__ = ("_profile",)

    def __init__(self, clock: PhaseClock, name: str, profile: Profile) -> None:
        super().__init__(clock, name)
        self._profile = profile

    @override
    def now(self) -> Context:
        return self._profile(self.name)


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


class Saving(Inside):
    """A checkpoint is being saved: charged to the callback that asked for it, by name."""

    __slots__ = ("_timeline",)

    def __init__(self, clock: PhaseClock, timeline: StepTimeline) -> None:
        super().__init__(clock, "save_checkpoint")
        self._timeline = timeline

    @override
    def __enter__(self) -> None:
        self._timeline.flags |= StepFlag.CHECKPOINT
        super().__enter__()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        """Return the checkpoint slot of the callback that is open, or of the user's own call."""
        by_callback = outer.phase in (Phase.CALLBACKS, Phase.CHECKPOINT)
        return Slot(Phase.CHECKPOINT, (by_callback and outer.part) or self.name)


class ByExperiment(Inside):
    """The program calls a logger's `experiment` itself: in a step that is logging.

    What the logger calls of it is the logger's, and what a callback or a hook does is theirs.
    """

    __slots__ = ()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        """Return the slot of the call: in a step logging's, in validation a part of that."""
        if outer.phase is Phase.FORWARD:
            return Slot(Phase.LOGGING, self.name)
        inside = (outer.part or "").startswith(EXPERIMENT)  # one such call makes another
        if outer.phase is Phase.VALIDATION and not inside:
            return Slot(Phase.VALIDATION, self.name)
        return outer


class HandingOn(Decorator):
    """Opens a region and the user's own profiler's action with it."""

    __slots__ = ("_action", "_inner", "_opened", "_overridden", "_profile", "region")

    def __init__(self, region: Context, inner: Any, action: str, profile: Profile) -> None:
        self.region = region
        self._inner = inner
        self._action = action
        self._profile = profile
        # Only a profiler that changed `profile` itself needs its context; start and stop are
        # what the others consist of.
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


class Regions(dict[str, Context]):
    """Makes each action's region when it is first asked for."""

    def __init__(self, make: Callable[[str], Context]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, action_name: str) -> Context:
        region = self[action_name] = self._make(action_name)
        return region
