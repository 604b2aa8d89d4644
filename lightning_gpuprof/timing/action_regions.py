"""Decides which region every action of the Trainer opens.

An action has different regions in timed steps, in other steps, and in a validation.
"""

from collections.abc import Callable
from functools import partial

from lightning_gpuprof.adapters import actions
from lightning_gpuprof.adapters.trainer_parts import TrainerParts
from lightning_gpuprof.records.phases import LOADER_HOOKS, PHASES_IN_VALIDATION, Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing import regions
from lightning_gpuprof.timing.fit_end import FitEnd
from lightning_gpuprof.timing.phase_clock import PartRegion, Region
from lightning_gpuprof.timing.regions import Profile, RegionLike
from lightning_gpuprof.timing.step_timeline import EPOCH_START, TEARDOWN, Fetch, StepTimeline

_IDLE: RegionLike = regions.Idle()


class ActionRegions:
    """Creates the regions of the actions of the Trainer's profiler, when they first occur.

    Args:
        parts: The parts of the Trainer.
        timeline: The timeline of the session.
        batch: Returns the region of a batch.
        fit_end: Notices the end of the fit.
        watch: Returns a region with device marks around it; None without a device.

    Attributes:
        training: The regions in timed steps.
        passing: The regions in other steps.
        validating: The regions in a validation inside a fit.
        fetching: The region of the fetch of a validation's batch.
        profile: Returns the current region of an action.
    """

    def __init__(
        self,
        parts: TrainerParts,
        timeline: StepTimeline,
        *,
        batch: Callable[..., Region],
        fit_end: FitEnd,
        watch: Callable[[Region], RegionLike] | None = None,
    ) -> None:
        self._trainer, self._inner = parts.trainer, parts.profiler
        self._timeline = timeline
        self._clock = timeline.clock
        self._batch = batch
        self._fit_end = fit_end
        self._watch = watch
        self._on_event: dict[actions.LoopEvent, Callable[[], None]] = {
            actions.LoopEvent.TRAIN_START: timeline.end_startup,
            actions.LoopEvent.BEFORE_EPOCH: self._before_epoch,
            actions.LoopEvent.AFTER_EPOCH: timeline.end_epoch,
            actions.LoopEvent.END: partial(timeline.begin_outside, TEARDOWN),
        }
        self.fetching = regions.ValidationFetch(self._clock)
        self.is_profiler_used = parts.profiler_acts
        self._cost: RegionLike = _IDLE
        if self.is_profiler_used:
            name = type(parts.profiler).__name__
            self._cost = self._clock.region(Phase.CALLBACKS, name)
        self.training = regions.Regions(self._in_training)
        self.passing = regions.Regions(self._in_passing)
        self.validating = regions.Regions(self._in_validation)
        self.profile: Profile = self.training.__getitem__

    def _before_epoch(self) -> None:
        self._timeline.end_startup()
        self._timeline.begin_outside(EPOCH_START)

    def _in_training(self, action_name: str) -> RegionLike:
        action = actions.parse_action(action_name)
        event = actions.LOOP_EVENTS.get(action.name)
        if event is None and actions.is_idle(self._trainer, action):
            return self._finished(_IDLE, action_name)
        region = self._plain(action_name)
        if event is not None and not isinstance(region, PartRegion):
            region = self._at_event(region, event)
        return self._finished(region, action_name)

    def _at_event(self, region: Region, event: actions.LoopEvent) -> Region:
        timeline = self._timeline
        if event is actions.LoopEvent.FETCH:
            return Fetch(region, timeline)
        if event is actions.LoopEvent.EPOCH_LOOP:
            return regions.EpochLoop(region, timeline)
        if event is actions.LoopEvent.BATCH:
            return self._batch(region, timed=True)
        return regions.AtLoopEvent(region, self._on_event[event])

    def _in_passing(self, action_name: str) -> RegionLike:
        """Return the region of an action in a step that is not timed by phase.

        Only loop events, checkpoints and the program's own actions do something there.
        """
        action = actions.parse_action(action_name)
        event = actions.LOOP_EVENTS.get(action.name)
        if event is actions.LoopEvent.BATCH:
            region = self._batch(self._clock.region(Phase.OTHER), timed=False)
            return self._finished(region, action_name)
        saves_checkpoints = action.kind == "Callback" and self._callback_name(action)[1]
        phase, _ = actions.phase_of(action) or (None, None)
        if event is not None or saves_checkpoints or phase in (None, Phase.CHECKPOINT):
            return self.training[action_name]
        return self._finished(_IDLE, action_name)

    def _in_validation(self, action_name: str) -> RegionLike:
        """Return the region of an action in a validation.

        It charges the phase `validation`, except for callbacks, logging and checkpoints.
        """
        action = actions.parse_action(action_name)
        if actions.is_idle(self._trainer, action):
            return self._finished(_IDLE, action_name)
        region = self._plain(action_name)
        slot = self._clock.slots[region.slot]
        if not isinstance(region, PartRegion) and slot.phase not in PHASES_IN_VALIDATION:
            named = slot.phase is Phase.OTHER or slot.part in LOADER_HOOKS
            part = slot.part if named else None
            region = self._clock.region(Phase.VALIDATION, part)
        if action.name == "val_next":
            region = self.fetching
        return self._finished(region, action_name)

    def _plain(self, action_name: str) -> Region:
        """Return the region that charges an action to its phase, and does nothing else."""
        action = actions.parse_action(action_name)
        if action.kind == "Callback":
            name, is_checkpoint = self._callback_name(action)
            phase = Phase.CHECKPOINT if is_checkpoint else Phase.CALLBACKS
            return self._clock.region(phase, name)
        if action_name == "save_checkpoint":
            return regions.Saving(self._timeline)
        phase_and_part = actions.phase_of(action)
        if phase_and_part is None:
            return regions.OwnAction(self._clock, action_name, self._current)
        region = self._clock.region(*phase_and_part)
        if action.name == "on_save_checkpoint":  # Lightning 2.4 has no `save_checkpoint` around it
            return regions.Calling(region, partial(self._timeline.flag, StepFlag.CHECKPOINT))
        return region

    def _callback_name(self, action: actions.Action) -> tuple[str, bool]:
        return actions.callback_name(self._trainer.callbacks, action.owner)

    def _finished(self, region: RegionLike, action_name: str) -> RegionLike:
        """Return a region with all that belongs around it.

        That is device marks, the same action of the user's profiler, and the check for the fit's
        end.
        """
        context = self.watched(region)
        if self.is_profiler_used:
            context = regions.HandingOn(
                context, self._inner, action_name, self._current, cost=self._cost
            )
        return self._fit_end.around(actions.parse_action(action_name), context)

    def _current(self, action_name: str) -> RegionLike:
        return self.profile(action_name)

    def watched(self, region: RegionLike) -> RegionLike:
        """Return a region with device marks around it, if it has any."""
        if self._watch is None or not isinstance(region, Region):
            return region
        return self._watch(region)
