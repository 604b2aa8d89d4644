"""Regions beside the plain ones: at borders, for checkpoints, loggers and the user's profiler."""

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


class Calling(Region):
    """Calls a function before it opens."""

    def __init__(self, region: Region, call: Callable[[], object]) -> None:
        super().__init__(region.clock, region.slot)
        self._call = call

    @override
    def __enter__(self) -> None:
        self._call()
        Region.__enter__(self)


class AtBorder(Calling):
    """Calls the timeline at a border before it opens."""


class EpochLoop(Region):
    """The loop over an epoch's batches."""

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
    """

    def __init__(self, clock: PhaseClock) -> None:
        parts = phases.NEXT_BATCHES, phases.FIRST_BATCH
        slots = [clock.slot(Phase.VALIDATION, part) for part in parts]
        super().__init__(clock, slots[False])
        self._pairs = [(code(OPEN, slot), code(CLOSE, slot)) for slot in slots]
        self.first = True
        """Whether the next fetch is a validation's first."""
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
    """A loader makes its iterator, and starts workers, amid an epoch or a validation's batches.

    Amid an epoch the whole fetch that it is in is charged to that, and `again` is called. In a
    validation its next batch is a first one. What is opened here is closed with the fetch around
    it.
    """

    def __init__(
        self, timeline: StepTimeline, fetching: ValidationFetch, again: Callable[[], object]
    ) -> None:
        clock = timeline.clock
        self._timeline, self._fetching, self._again = timeline, fetching, again
        self._amid = clock.region(Phase.DATA_WAIT, phases.WORKER_STARTUP)
        self._starts = clock.region(Phase.VALIDATION, phases.LOADER_START)
        self._first = clock.region(Phase.VALIDATION, phases.FIRST_BATCH)

    def __enter__(self) -> None:
        timeline = self._timeline
        if self._fetching.running:
            self._starts.__enter__()
        elif timeline.in_step and not (timeline.ran or timeline.begun):
            self._again()
            if timeline.marked:
                self._amid.__enter__()

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None:
        if self._fetching.running:
            self._starts.__exit__(kind, error, trace)
            self._first.__enter__()


class Idle:
    """Stands in for the region of an empty hook, fifteen times a step: its time is its caller's."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: _Kind, error: _Error, trace: _Trace) -> None: ...


class OwnAction(PartRegion):
    """An action of the program's own; functions that it decorates ask `profile` at each call."""

    def __init__(self, clock: PhaseClock, name: str, profile: Profile) -> None:
        super().__init__(clock, name)
        self._profile = profile

    @override
    def now(self) -> Context:
        return self._profile(self.name)


class Saving(PartRegion):
    """A checkpoint is being saved: charged to the callback that asked for it, by name."""

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

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        if outer.phase is Phase.FORWARD:
            return Slot(Phase.LOGGING, self.name)
        nested = (outer.part or "").startswith(phases.EXPERIMENT)  # one such call makes another
        if outer.phase is Phase.VALIDATION and not nested:
            return Slot(Phase.VALIDATION, self.name)
        return outer


class HandingOn(Decorator):
    """Opens a region and the same action of the user's own profiler."""

    __slots__ = ("_action", "_inner", "_opened", "_profile", "region")

    def __init__(self, region: Context, inner: Any, action: str, profile: Profile) -> None:
        self.region = region
        self._inner = inner
        self._action = action
        self._profile = profile
        self._opened: list[Context] = []

    @override
    def now(self) -> Context:
        return self._profile(self._action)

    def __enter__(self) -> str:
        self.region.__enter__()
        try:
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
                self._opened.pop().__exit__(kind, error, trace)
        finally:
            self.region.__exit__(kind, error, trace)


def ranges(watch: Callable[[Region], Context] | None, region: Region) -> Context:
    """Return a phase's region, with the marks that `watch` puts around it, as an NVTX range, too.

    On AMD it is one of rocTX; profilers outside of the process show it.
    """
    context = region if watch is None else watch(region)
    phase = region.clock.slots[region.slot].phase
    if phase is Phase.OTHER:
        return context
    return HandingOn(context, _NVTX, phase.value, lambda _: ranges(watch, region))


def check_nvtx() -> None:
    """Raise ConfigError where this torch has no NVTX."""
    try:
        with _NVTX.profile("lightning_gpuprof"):
            pass
    except RuntimeError as error:
        said = "nvtx=True needs a torch that was built for CUDA or ROCm. Leave it out here."
        raise ConfigError(said) from error
