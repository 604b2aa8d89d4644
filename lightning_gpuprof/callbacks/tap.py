"""A profiler in the place of the Trainer's own that charges each action's time to its phase."""

from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Profiler, is_kind
from lightning_gpuprof.callbacks.actions import (
    EVALUATION_BORDERS,
    FIT_BORDERS,
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
    Regions,
    Saving,
)
from lightning_gpuprof.probes.phase_clock import Inside, Region
from lightning_gpuprof.probes.step_timeline import EPOCH_START, TEARDOWN, StepTimeline
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag

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
    """

    def __init__(
        self,
        inner: Any,
        timeline: StepTimeline,
        *,
        names: Callable[[str], tuple[str, bool]],
        evaluating: bool,
    ) -> None:
        # Profiler.__init__ is left out: dirpath, filename and the like are the inner one's.
        self._inner = inner
        self._timeline = timeline
        self._clock = timeline.clock
        self._names = names
        self._borders = EVALUATION_BORDERS if evaluating else FIT_BORDERS
        self._tells: dict[Border, Callable[[], None]] = {
            Border.FETCH: timeline.fetch,
            Border.BATCH_START: timeline.begin_step,
            Border.BEFORE_EPOCH: partial(timeline.outside_is, EPOCH_START),
            Border.AFTER_EPOCH: timeline.end_epoch,
            Border.END: partial(timeline.outside_is, TEARDOWN),
        }
        self._counted = 0
        self._hands_on = not is_kind(inner, "PassThroughProfiler")
        self._training = Regions(self._in_training)
        self._validating = Regions(self._in_validation)
        self.use(validating=False)

    @override
    def start(self, action_name: str) -> None:
        """Open an action's region."""
        region = self._regions[action_name]
        if isinstance(region, HandingOn):
            region.region.__enter__()
            self._inner.start(action_name)
        else:
            region.__enter__()

    @override
    def stop(self, action_name: str) -> None:
        """Close an action's region; one that was never started is left alone."""
        region = self._regions[action_name]
        if isinstance(region, HandingOn):
            self._inner.stop(action_name)
            region = region.region
        region.__exit__(None, None, None)

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
        return _Validation(self, Flagging(region, self._timeline, StepFlag.VALIDATION))

    def logging(self, name: str) -> Context:
        """Return the region of a call to a logger."""
        region = self._clock.region(Phase.LOGGING, name)
        return Flagging(region, self._timeline, StepFlag.LOGGED)

    def use(self, *, validating: bool) -> None:
        """Look actions up in the table for training or in the one for validation inside a fit."""
        # The dict's own lookup as an instance attribute: the Trainer calls it 30 times a step.
        self._regions = self._validating if validating else self._training
        self.__dict__["profile"] = self._regions.__getitem__

    def begin_count(self) -> None:
        """Count the regions asked for from now on, up to `end_count`."""
        self._counted = 0
        self.__dict__["profile"] = self._count

    def end_count(self) -> int:
        """Return the number of regions asked for since `begin_count`."""
        self.__dict__["profile"] = self._regions.__getitem__
        return self._counted

    def _count(self, action_name: str) -> Context:
        self._counted += 1
        return self._regions[action_name]

    def _in_training(self, action_name: str) -> Context:
        region = self._plain(action_name)
        border = self._borders.get(parse_action(action_name).name)
        if border is None or isinstance(region, Inside):
            return self._handing_on(region, action_name)
        timeline = self._timeline
        if border is Border.BATCH:
            region = Batch(region, timeline)
        elif border is Border.EPOCH_LOOP:
            region = EpochLoop(region, timeline)
        else:
            region = AtBorder(region, self._tells[border])
        return self._handing_on(region, action_name)

    def _in_validation(self, action_name: str) -> Context:
        """Inside validation all but callbacks, logging and checkpoints stays validation."""
        region = self._plain(action_name)
        slot = self._clock.slots[region.slot]
        if not isinstance(region, Inside) and slot.phase not in _STAY_IN_VALIDATION:
            part = slot.part if slot.phase is Phase.OTHER else None
            region = self._clock.region(Phase.VALIDATION, part)
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

    def _handing_on(self, region: Region, action_name: str) -> Context:
        return HandingOn(region, self._inner, action_name) if self._hands_on else region


class _Validation:
    def __init__(self, tap: ProfilerTap, region: Context) -> None:
        self._tap = tap
        self._region = region

    def __enter__(self) -> None:
        self._region.__enter__()
        self._tap.use(validating=True)

    def __exit__(self, *raised: Any) -> None:
        self._tap.use(validating=False)
        self._region.__exit__(*raised)


_OWN = frozenset(
    "_inner _timeline _clock _names _borders _tells _hands_on _training _validating"
    " _regions _counted".split()
)


def _inner_alone(inner: Any) -> Any:
    return inner
