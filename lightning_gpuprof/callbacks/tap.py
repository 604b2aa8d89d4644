"""A profiler in the place of the Trainer's own that charges each action's time to its phase."""

from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Profiler, is_kind
from lightning_gpuprof.callbacks.actions import (
    EVALUATION_BORDERS,
    FIT_BORDERS,
    Action,
    Border,
    parse_action,
    phase_of,
)
from lightning_gpuprof.callbacks.tap_regions import (
    AtBorder,
    Batch,
    Context,
    EpochLoop,
    Flagging,
    HandingOn,
    Idle,
    PassedOver,
    Regions,
    Saving,
    Settling,
)
from lightning_gpuprof.probes.phase_clock import Inside, Region
from lightning_gpuprof.probes.step_timeline import EPOCH_START, TEARDOWN, Fetch, StepTimeline
from lightning_gpuprof.records.phases import SELF_LOG, Phase
from lightning_gpuprof.records.schema import StepFlag

_IDLE = Idle()
_STAY_IN_VALIDATION = (Phase.CALLBACKS, Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION)


class ProfilerTap(Profiler):
    """Hands every call on to the user's own profiler and keeps the phase clock's regions.

    `profile` gives one cached context object per action name instead of a new generator each
    time, which makes up for what the clock costs.

    Args:
        inner: The profiler whose place this takes.
        timeline: Told of the borders of steps; its clock is charged.
        names: Gives a callback's name and whether it is a checkpoint callback, by state key.
        evaluating: The session is validate, test or predict instead of fit.
        idle: Tells of an action whether it runs a hook that is empty.
        fetches_inside: Steps fetch their batches themselves, by `dataloader_iter`; they begin
            where the hooks of their start are called.
        on_ran: Called after each batch of a fit that was trained.
        watch: Puts something around the regions at which it wants to be told, such as the
            device's marks.
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
        on_ran: Callable[[], object] | None,
        watch: Callable[[Region], Context] | None = None,
    ) -> None:
        # Profiler.__init__ is left out: dirpath, filename and the like are the inner one's.
        self._inner = inner
        self._timeline = timeline
        self._clock = timeline.clock
        self._names = names
        self._idle = idle
        self._on_ran = on_ran
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
        self._hands_on = not is_kind(inner, "PassThroughProfiler")
        if self._hands_on:
            self.__dict__.update(start=self._start_both, stop=self._stop_both)
        self._training = Regions(self._in_training)
        self._validating = Regions(self._in_validation)
        self._passing = Regions(self._in_passing)
        self._stepping = self._training
        self._look_up(self._training)

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
            self, self._watched(Flagging(region, self._timeline, StepFlag.VALIDATION))
        )

    def logging(self, name: str) -> Context:
        """Return the region of a call to a logger."""
        region = self._clock.region(Phase.LOGGING, name)
        return Flagging(region, self._timeline, StepFlag.LOGGED)

    def module_log(self) -> Context:
        """Return the region of the module's `self.log`: logging, or validation's own inside it."""
        training = self._clock.region(Phase.LOGGING, SELF_LOG)
        return _ModuleLog(self, training, self._clock.region(Phase.VALIDATION))

    @property
    def validating(self) -> bool:
        """Whether a validation inside a fit is running."""
        return self._regions is self._validating

    def saving(self) -> Context:
        """Return the region of a checkpoint being saved."""
        return Saving(self._clock, self._timeline)

    def mark(self, marked: bool) -> None:
        """Time the actions of training steps from here on, or all but a few of them no more."""
        self._stepping = self._training if marked else self._passing
        self._look_up(self._stepping)

    def validate(self, validating: bool) -> None:
        """Time actions as those of a validation inside a fit, or again as those of its steps."""
        self._look_up(self._validating if validating else self._stepping)

    def _look_up(self, regions: Regions) -> None:
        # The dict's own lookup as an instance attribute: the Trainer calls it 30 times a step.
        self._regions = regions
        self.__dict__["profile"] = regions.__getitem__

    def _start_both(self, action_name: str) -> None:
        _region_of(self._regions[action_name]).__enter__()
        self._inner.start(action_name)

    def _stop_both(self, action_name: str) -> None:
        self._inner.stop(action_name)
        _region_of(self._regions[action_name]).__exit__(None, None, None)

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
            if self._on_ran is None:
                return region
            own = self._clock.slot(Phase.CALLBACKS, "PhaseTimer")
            return Batch(region, self._on_ran, own)
        return AtBorder(region, self._tells[border])

    def _in_passing(self, action_name: str) -> Context:
        """In a step that is not marked: borders, and what saves a checkpoint, rare as that is."""
        action = parse_action(action_name)
        border = self._borders.get(action.name)
        if border is Border.BATCH and self._on_ran is not None:
            return self._handing_on(PassedOver(self._timeline, self._on_ran), action_name)
        saves = action.kind == "Callback" and self._names(action.owner)[1]
        if border is not None or saves or action_name == "save_checkpoint":
            return self._training[action_name]
        return self._handing_on(_IDLE, action_name)

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
            region = Settling(self._clock, region.slot)
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
        return self._clock.region(*found) if found else Inside(self._clock, action_name)

    def _handing_on(self, region: Context, action_name: str) -> Context:
        watched = self._watched(region)
        return HandingOn(watched, self._inner, action_name) if self._hands_on else watched

    def _watched(self, region: Context) -> Context:
        if self._watch is None or not isinstance(region, Region):
            return region
        return self._watch(region)


class _ModuleLog:
    def __init__(self, tap: ProfilerTap, training: Region, validating: Region) -> None:
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


_OWN = frozenset(
    "_inner _timeline _clock _names _watch _borders _tells _hands_on _training _validating"
    " _passing _stepping _regions _idle _on_ran".split()
)


def _region_of(context: Context) -> Context:
    return context.region if isinstance(context, HandingOn) else context


def _inner_alone(inner: Any) -> Any:
    return inner
