"""Regions that do more than charge time, for loop events, checkpoints, loggers and profilers."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace, TracebackType
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records import phases
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.phase_clock import (
    LOG_LIMIT,
    Decorator,
    PartRegion,
    PhaseClock,
    Region,
    Slot,
)
from lightning_gpuprof.timing.region_paths import CLOSE, OPEN, code
from lightning_gpuprof.timing.step_timeline import StepTimeline

_NVTX: Any = SimpleNamespace(profile=torch.cuda.nvtx.range)
RegionLike = AbstractContextManager[Any]
Profile = Callable[[str], RegionLike]
_Kind = type[BaseException] | None
_Error = BaseException | None
_Trace = TracebackType | None


class Regions(dict[str, RegionLike]):
    """The regions of actions by name. A region is created when its action first occurs."""

    def __init__(self, make: Callable[[str], RegionLike]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, action_name: str) -> RegionLike:
        region = self[action_name] = self._make(action_name)
        return region


class Calling(Region):
    """A region that calls a function before it opens."""

    def __init__(self, region: Region, call: Callable[[], object]) -> None:
        super().__init__(region.clock, region.slot)
        self._call = call

    @override
    def __enter__(self) -> None:
        self._call()
        Region.__enter__(self)


class AtLoopEvent(Calling):
    """A region that notifies the timeline of a loop event before it opens."""


class EpochLoop(Region):
    """The region of the loop over the batches of an epoch."""

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
    """The region of the fetch of a validation's batch. The first fetch has a slot of its own.

    It settles the log if that is long, since a validation may have any number of batches.

    Attributes:
        first: Whether the next fetch is the first of a validation.
        running: Whether a batch is being fetched.
    """

    def __init__(self, clock: PhaseClock) -> None:
        parts = phases.NEXT_BATCHES, phases.FIRST_BATCH
        slots = [clock.slot(Phase.VALIDATION, part) for part in parts]
        super().__init__(clock, slots[False])
        self._pairs = [(code(OPEN, slot), code(CLOSE, slot)) for slot in slots]
        self.first = True
        self.running = False

    @override
    def __enter__(self) -> None:
        self._opens, self._closes = self._pairs[self.first]
        self.first, self.running = False, True
        if len(self.clock.codes) > LOG_LIMIT:
            self.clock.settle()
        super().__enter__()

    @override
    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None:
        self.running = False
        super().__exit__(kind, error, trace)


class IteratorStart:
    """The region in which a loader creates an iterator, and starts workers, during a fetch.

    In an epoch of training, the rest of the fetch is charged to the start of workers, and
    `on_new_iterator` is called. In a validation, the rest of the fetch is charged to a first batch.
    What is opened here is closed when the fetch ends.
    """

    def __init__(
        self,
        timeline: StepTimeline,
        fetching: ValidationFetch,
        on_new_iterator: Callable[[], object],
    ) -> None:
        clock = timeline.clock
        self._timeline, self._fetching = timeline, fetching
        self._on_new_iterator = on_new_iterator
        self._in_epoch = clock.region(Phase.DATA_WAIT, phases.WORKER_STARTUP)
        self._in_validation = clock.region(Phase.VALIDATION, phases.LOADER_START)
        self._first = clock.region(Phase.VALIDATION, phases.FIRST_BATCH)

    def __enter__(self) -> None:
        timeline = self._timeline
        if self._fetching.running:
            self._in_validation.__enter__()
        elif timeline.in_step and not (timeline.ran or timeline.begun):
            self._on_new_iterator()
            if timeline.timed:
                self._in_epoch.__enter__()

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None:
        if self._fetching.running:
            self._in_validation.__exit__(kind, error, trace)
            self._first.__enter__()


class Idle:
    """The region of an empty hook, whose time is charged to the caller. A step has about 15."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None: ...


class OwnAction(PartRegion):
    """The region of an action of the program's own.

    If it decorates a function, `profile` returns the region to enter at every call.
    """

    def __init__(self, clock: PhaseClock, name: str, profile: Profile) -> None:
        super().__init__(clock, name)
        self._profile = profile

    @override
    def current(self) -> RegionLike:
        return self._profile(self.name)


class Saving(PartRegion):
    """The region in which a checkpoint is saved. Its part is the callback that asked for it."""

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
    """The region of a call of a logger's `experiment`, which is logging if the model makes it.

    Calls by the logger itself, by callbacks or by hooks stay charged to these.
    """

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        if outer.phase is Phase.FORWARD:
            return Slot(Phase.LOGGING, self.name)
        is_nested = (outer.part or "").startswith(phases.EXPERIMENT)  # inside another such call
        if outer.phase is Phase.VALIDATION and not is_nested:
            return Slot(Phase.VALIDATION, self.name)
        return outer


class HandingOn(Decorator):
    """Opens a region, and inside it the same action of the user's own profiler.

    Args:
        region: The region.
        inner: The user's profiler.
        action: The name of the action.
        profile: Returns the current region of the action.
        cost: The region that is charged with what the profiler takes to begin and end the action.
    """

    __slots__ = ("_action", "_cost", "_inner", "_opened", "_profile", "region")

    def __init__(
        self,
        region: RegionLike,
        inner: Any,
        action: str,
        profile: Profile,
        *,
        cost: RegionLike,
    ) -> None:
        self.region = region
        self._inner = inner
        self._action = action
        self._profile = profile
        self._cost = cost
        self._opened: list[RegionLike] = []

    @override
    def current(self) -> RegionLike:
        return self._profile(self._action)

    def __enter__(self) -> str:
        self.region.__enter__()
        try:
            with self._cost:
                context = self._inner.profile(self._action)
                context.__enter__()
        except BaseException:
            self.region.__exit__(None, None, None)
            raise
        self._opened.append(context)
        return self._action

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None:
        try:
            if self._opened:
                with self._cost:
                    self._opened.pop().__exit__(kind, error, trace)
        finally:
            self.region.__exit__(kind, error, trace)


def ranges(watch: Callable[[Region], RegionLike] | None, region: Region) -> RegionLike:
    """Return the region that `watch` returns for a region, with an NVTX range in it.

    The range has the name of the phase. Profilers outside the process show it. On AMD it is a rocTX
    range. The phase `other` has none.
    """
    context = region if watch is None else watch(region)
    phase = region.clock.slots[region.slot].phase
    if phase is Phase.OTHER:
        return context
    return HandingOn(context, _NVTX, phase.value, lambda _: ranges(watch, region), cost=Idle())


def check_nvtx() -> None:
    """Raise ConfigError if this torch has no NVTX."""
    try:
        with _NVTX.profile("lightning_gpuprof"):
            pass
    except RuntimeError as error:
        raise ConfigError(
            "nvtx=True needs a torch that was built for CUDA or ROCm. Leave it out on this machine."
        ) from error
