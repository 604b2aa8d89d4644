"""Which region each of the Trainer's actions opens: in marked steps, others, and validation."""

from collections.abc import Callable
from functools import partial

from lightning_gpuprof.adapters import actions
from lightning_gpuprof.adapters.trainer_parts import TrainerParts
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing import regions
from lightning_gpuprof.timing.fit_end import FitEnd
from lightning_gpuprof.timing.phase_clock import PartRegion, Region
from lightning_gpuprof.timing.regions import Context, Profile
from lightning_gpuprof.timing.step_timeline import EPOCH_START, TEARDOWN, Fetch, StepTimeline

_IDLE: Context = regions.Idle()
_STAY_IN_VALIDATION = (Phase.CALLBACKS, Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION)


class ActionRegions:
    """Makes the region of each action of the Trainer's profiler when it is first asked for."""

    def __init__(
        self,
        parts: TrainerParts,
        timeline: StepTimeline,
        *,
        batch: Callable[..., Region],
        fit_end: FitEnd,
        watch: Callable[[Region], Context] | None = None,
    ) -> None:
        self._trainer, self._inner = parts.trainer, parts.profiler
        self._timeline = timeline
        self._clock = timeline.clock
        self._batch = batch
        self._fit_end = fit_end
        self._watch = watch
        self._reach: dict[actions.Border, Callable[[], None]] = {
            actions.Border.TRAIN_START: timeline.end_startup,
            actions.Border.BEFORE_EPOCH: self._before_epoch,
            actions.Border.AFTER_EPOCH: timeline.end_epoch,
            actions.Border.END: partial(timeline.outside_is, TEARDOWN),
        }
        self.fetching = regions.ValidationFetch(self._clock)
        self.hands_on = parts.profiler_acts
        self.training = regions.Regions(self._in_training)
        self.passing = regions.Regions(self._in_passing)
        self.validating = regions.Regions(self._in_validation)
        self.profile: Profile = self.training.__getitem__

    def _before_epoch(self) -> None:
        self._timeline.end_startup()
        self._timeline.outside_is(EPOCH_START)

    def _in_training(self, action_name: str) -> Context:
        action = actions.parse_action(action_name)
        border = actions.BORDERS.get(action.name)
        if border is None and actions.is_idle(self._trainer, action):
            return self._handing_on(_IDLE, action_name)
        region = self._plain(action_name)
        if border is not None and not isinstance(region, PartRegion):
            region = self._at_border(region, border)
        return self._handing_on(region, action_name)

    def _at_border(self, region: Region, border: actions.Border) -> Region:
        timeline = self._timeline
        if border is actions.Border.FETCH:
            return Fetch(region, timeline)
        if border is actions.Border.EPOCH_LOOP:
            return regions.EpochLoop(region, timeline)
        if border is actions.Border.BATCH:
            return self._batch(region, marked=True)
        return regions.AtBorder(region, self._reach[border])

    def _in_passing(self, action_name: str) -> Context:
        """In a step that is not marked: borders, checkpoints and actions of the program's own."""
        action = actions.parse_action(action_name)
        border = actions.BORDERS.get(action.name)
        if border is actions.Border.BATCH:
            region = self._batch(self._clock.region(Phase.OTHER), marked=False)
            return self._handing_on(region, action_name)
        saves = action.kind == "Callback" and self._name(action)[1]
        phase, _ = actions.phase_of(action) or (None, None)
        if border is not None or saves or phase in (None, Phase.CHECKPOINT):
            return self.training[action_name]
        return self._handing_on(_IDLE, action_name)

    def _in_validation(self, action_name: str) -> Context:
        """Inside validation all but callbacks, logging and checkpoints stays validation."""
        action = actions.parse_action(action_name)
        if actions.is_idle(self._trainer, action):
            return self._handing_on(_IDLE, action_name)
        region = self._plain(action_name)
        slot = self._clock.slots[region.slot]
        if not isinstance(region, PartRegion) and slot.phase not in _STAY_IN_VALIDATION:
            part = slot.part if slot.phase is Phase.OTHER else None
            region = self._clock.region(Phase.VALIDATION, part)
        if action.name == "val_next":
            region = self.fetching
        return self._handing_on(region, action_name)

    def _plain(self, action_name: str) -> Region:
        action = actions.parse_action(action_name)
        if action.kind == "Callback":
            name, is_checkpoint = self._name(action)
            phase = Phase.CHECKPOINT if is_checkpoint else Phase.CALLBACKS
            return self._clock.region(phase, name)
        if action_name == "save_checkpoint":
            return regions.Saving(self._timeline)
        found = actions.phase_of(action)
        if found is None:
            return regions.OwnAction(self._clock, action_name, self._now)
        region = self._clock.region(*found)
        if action.name == "on_save_checkpoint":  # Lightning 2.4 has no action around it
            return regions.Calling(region, partial(self._timeline.flag, StepFlag.CHECKPOINT))
        return region

    def _name(self, action: actions.Action) -> tuple[str, bool]:
        return actions.callback_name(self._trainer.callbacks, action.owner)

    def _handing_on(self, region: Context, action_name: str) -> Context:
        context = self.watched(region)
        if self.hands_on:
            context = regions.HandingOn(context, self._inner, action_name, self._now)
        return self._fit_end.around(actions.parse_action(action_name), context)

    def _now(self, action_name: str) -> Context:
        return self.profile(action_name)

    def watched(self, region: Context) -> Context:
        """Return a region with the device's marks around it, where it has any."""
        if self._watch is None or not isinstance(region, Region):
            return region
        return self._watch(region)
