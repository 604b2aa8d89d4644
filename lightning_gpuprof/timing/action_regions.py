"""Which region the Trainer's actions open: in marked steps, in others, and in validation."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.lightning import hook_of, is_kind
from lightning_gpuprof.records.phases import TRANSFER_HOOKS, Phase
from lightning_gpuprof.timing.actions import (
    EVALUATION_BORDERS,
    FIT_BORDERS,
    Action,
    Border,
    parse_action,
    phase_of,
)
from lightning_gpuprof.timing.phase_clock import Inside, Region
from lightning_gpuprof.timing.regions import (
    AroundBatches,
    AtBorder,
    Context,
    EpochLoop,
    HandingOn,
    Idle,
    NotTimed,
    OwnAction,
    Profile,
    Regions,
    Saving,
    Traced,
    ValidationFetch,
)
from lightning_gpuprof.timing.step_timeline import EPOCH_START, TEARDOWN, Fetch, StepTimeline

_IDLE = Idle()
_STAY_IN_VALIDATION = (Phase.CALLBACKS, Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION)


class ActionRegions:
    """Makes the region of each action of the Trainer's profiler when it is first asked for.

    Args:
        inner: The profiler that calls are handed on to.
        timeline: Told of the borders of steps; its clock is charged.
        names: Gives a callback's name and whether it is a checkpoint callback, by state key.
        evaluating: The session is validate, test or predict instead of fit.
        idle: Tells of an action whether it runs a hook that is empty.
        fetches_inside: Steps fetch their batches themselves, by `dataloader_iter`; they begin
            where the hooks of their start are called.
        batches: What is entered around each batch of a fit; None where that is its region alone.
        watch: Puts something around the regions at which it wants to be told, such as the
            device's marks.

    Attributes:
        training: By the name of an action, its region in a step that is marked.
        passing: In one that is not.
        validating: In a validation inside a fit.
        profile: What an action is now; set by the tap.
        fetching: That of a validation's batches.
        hands_on: Whether there is anything that calls need be handed on to.
    """

    def __init__(
        self,
        inner: Any,
        timeline: StepTimeline,
        *,
        names: Callable[[str], tuple[str, bool]],
        evaluating: bool,
        idle: Callable[[Action], bool],
        fetches_inside: bool,
        batches: AroundBatches | None,
        watch: Callable[[Region], Context] | None = None,
    ) -> None:
        self._inner = inner
        self._timeline = timeline
        self._clock = timeline.clock
        self._names = names
        self._idle = idle
        self._batches = batches
        self._watch = watch
        self._borders = EVALUATION_BORDERS if evaluating else FIT_BORDERS
        if not fetches_inside:
            self._borders = {
                name: border
                for name, border in self._borders.items()
                if border is not Border.BATCH_START
            }
        self._tells: dict[Border, Callable[[], None]] = {
            Border.BATCH_START: timeline.begin_step,
            Border.BEFORE_EPOCH: partial(timeline.outside_is, EPOCH_START),
            Border.AFTER_EPOCH: timeline.end_epoch,
            Border.END: partial(timeline.outside_is, TEARDOWN),
        }
        self.fetching = ValidationFetch(self._clock)
        self.hands_on = not _does_nothing(inner)
        self.training = Regions(self._in_training)
        self.passing = Regions(self._in_passing)
        self.validating = Regions(self._in_validation)
        self.profile: Profile = self.training.__getitem__

    def _in_training(self, action_name: str) -> Context:
        action = parse_action(action_name)
        border = self._borders.get(action.name)
        if border is None and self._idle(action):
            return self._handing_on(_IDLE, action_name)
        region = self._plain(action_name)
        if border is not None and not isinstance(region, Inside):
            region = self._at_border(region, border)
        return self._handing_on(region, action_name)

    def _at_border(self, region: Region, border: Border) -> Region:
        timeline = self._timeline
        if border is Border.FETCH:
            return Fetch(region, timeline)
        if border is Border.EPOCH_LOOP:
            return EpochLoop(region, timeline)
        if border is Border.BATCH:
            timeline.batch_slot = region.slot
            if self._batches is None:
                return region
            own = self._clock.slot(Phase.CALLBACKS, "PhaseTimer")
            return self._batches.marked(region, own)
        return AtBorder(region, self._tells[border])

    def _in_passing(self, action_name: str) -> Context:
        """In a step that is not marked: borders, and what saves a checkpoint, rare as that is."""
        action = parse_action(action_name)
        border = self._borders.get(action.name)
        if border is Border.BATCH and self._batches is not None:
            return self._handing_on(self._batches.passed_over(), action_name)
        saves = action.kind == "Callback" and self._names(action.owner)[1]
        if border is not None or saves or action_name == "save_checkpoint":
            return self.training[action_name]
        is_lightnings = phase_of(action) is not None
        return self._handing_on(
            _IDLE if is_lightnings else NotTimed(action_name, self._now), action_name
        )

    def _in_validation(self, action_name: str) -> Context:
        """Inside validation all but callbacks, logging and checkpoints stays validation."""
        action = parse_action(action_name)
        if self._idle(action):
            return self._handing_on(_IDLE, action_name)
        region = self._plain(action_name)
        slot = self._clock.slots[region.slot]
        if not isinstance(region, Inside) and slot.phase not in _STAY_IN_VALIDATION:
            part = slot.part if slot.phase is Phase.OTHER else None
            region = self._clock.region(Phase.VALIDATION, part)
        if action.name == "val_next":
            region = self.fetching
        return self._handing_on(region, action_name)

    def _plain(self, action_name: str) -> Region:
        action = parse_action(action_name)
        if action.kind == "Callback":
            name, is_checkpoint = self._names(action.owner)
            phase = Phase.CHECKPOINT if is_checkpoint else Phase.CALLBACKS
            return self._clock.region(phase, name)
        if action_name == "save_checkpoint":
            return Saving(self._clock, self._timeline)
        found = phase_of(action)
        return (
            self._clock.region(*found) if found else OwnAction(self._clock, action_name, self._now)
        )

    def _handing_on(self, region: Context, action_name: str) -> Context:
        watched, hook = self.watched(region), parse_action(action_name).name
        if hook in TRANSFER_HOOKS and region is not _IDLE:
            watched = Traced(watched, hook)
        if not self.hands_on:
            return watched
        return HandingOn(watched, self._inner, action_name, self._now)

    def _now(self, action_name: str) -> Context:
        return self.profile(action_name)

    def watched(self, region: Context) -> Context:
        """Return a region with what `watch` puts around it, if anything."""
        if self._watch is None or not isinstance(region, Region):
            return region
        return self._watch(region)


def _does_nothing(profiler: Any) -> bool:
    """Tell whether it is Lightning's that does nothing, or derived from it and does no more."""
    return is_kind(profiler, "PassThroughProfiler") and all(
        hook_of(profiler, name) for name in ("start", "stop", "profile")
    )
