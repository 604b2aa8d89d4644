"""The timing of a session: the clock, the proxy, the device marks, and the writing of windows."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.device_events import DeviceEvents
from lightning_gpuprof.adapters.trainer_parts import TrainerParts
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import RunStart, StepFlag
from lightning_gpuprof.runtime.compiling import CompileRecords
from lightning_gpuprof.runtime.context import RunContext, StepListener, WindowListener
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.runtime.hooks import PeriodicCalls
from lightning_gpuprof.runtime.safe_logger import SafeLogger
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.attach import FIT_PHASES, ProxyTiming
from lightning_gpuprof.timing.batches import Batch, BatchState, shape_of
from lightning_gpuprof.timing.components import Component, activate
from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.device_marks import DeviceMarks
from lightning_gpuprof.timing.fit_end import FitEnd
from lightning_gpuprof.timing.overhead import StepChoice
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.regions import ranges
from lightning_gpuprof.timing.step_timeline import StepTimeline
from lightning_gpuprof.timing.window_writer import TimerSettings, WindowWriter


class TimingRun:
    """The state of a `PhaseTimer` for the length of a session.

    Nothing in the Trainer is changed before `attach`. The other parts of the session receive this
    object as their `StepTiming`. A copy of it (by pickle or deepcopy) is None.

    Args:
        parts: The parts of the Trainer.
        context: The session.
        settings: The settings of the `PhaseTimer`.
        loggers: The Trainer's loggers.
        shield: Wraps a function so that its failure switches the `PhaseTimer` off.
        calls: The periodic calls of the host, for which the batches are counted here.
        fit_end: Notices the end of the fit.
        events: The events of the device; None if it has none.
    """

    def __init__(
        self,
        parts: TrainerParts,
        context: RunContext,
        settings: TimerSettings,
        loggers: Sequence[SafeLogger],
        *,
        shield: Callable[[Callable[[], object]], Callable[[], None]],
        calls: PeriodicCalls,
        fit_end: FitEnd,
        events: DeviceEvents | None = None,
    ) -> None:
        self.timeline = StepTimeline(PhaseClock(context.now), warmup=settings.warmup)
        self.context = context
        self.running = False
        self._phases = [phase.value for phase in FIT_PHASES]
        self._fit_end = fit_end
        self._batches = BatchState(
            self.timeline,
            calls,
            parts.batch_holder,
            begin_special=shield(self._begin_special),
            note_compiling=shield(self._note_compiling),
            on_due=shield(self.do_due),
        )
        self._progress = parts.batch_loop.batch_progress
        self.timeline.clock.start(context.started_ns)
        self._device: DeviceMarking | None = None
        if events is not None:
            marks = DeviceMarks(events, context.now)
            budget = settings.overhead_budget
            self._device = DeviceMarking(marks, self.timeline, context, budget=budget)
            self._device.calibrate()
        watch = None if self._device is None else self._device.watch
        actions = ActionRegions(
            parts,
            self.timeline,
            batch=partial(Batch, state=self._batches),
            fit_end=fit_end,
            watch=partial(ranges, watch) if settings.nvtx else watch,
        )
        self._proxy = ProxyTiming(
            parts,
            self.timeline,
            actions,
            loggers,
            wrappers=context.wrappers,
            # The parts of a new iterator are timed from the next batch on.
            on_new_iterator=partial(setattr, self._batches, "first", True),
        )
        self._writer = WindowWriter(
            parts.trainer,
            context,
            self.timeline,
            settings,
            choice=StepChoice(self.timeline, use=self._proxy.use),
            device=self._device,
            loggers=loggers,
            own_names=parts.own_callbacks,
        )
        self.window_listeners: list[WindowListener] = self._writer.listeners
        self.part = cache(partial(Component, self.timeline, marking=self._device))
        self._deactivate: Callable[[], object] = lambda: None
        self._compiling: CompileRecords | None = None

    def attach(self) -> None:
        """Begin to time. `restore` undoes this, even if it has failed half-way."""
        self.running = True
        self._deactivate = activate(self.part)
        self._proxy.attach()
        self.context.at_start(self._describe)
        self.context.count_steps_by(self.timeline)
        flag = partial(self.timeline.flag_last_batch, StepFlag.COMPILED)
        self._compiling = CompileRecords(self.context, flag)

    @property
    def step(self) -> int:
        """Number of the running step, from 0."""
        return self.timeline.step

    @property
    def in_step(self) -> bool:
        """Whether a step is running. False between epochs."""
        return self.timeline.in_step

    @property
    def listeners(self) -> list[StepListener]:
        """The parts that are called at the beginning of every step."""
        return self.timeline.listeners

    def garbage_collections(self) -> AbstractContextManager[Any]:
        """Return the region of full garbage collections, which are a measured phase from now on."""
        if (name := Phase.GARBAGE_COLLECTION.value) not in self._phases:
            self._phases.append(name)
        return self.timeline.clock.collections()

    def flag_next_step(self, flag: int) -> None:
        """Flag the step whose batch begins next."""
        self.timeline.next_flags |= flag

    def begin_training(self, epoch: int) -> None:
        """Prepare for the first epoch. The optimizers and loaders exist by now."""
        self._proxy.time_manual_optimization()
        if self._device is not None:
            self._device.calibrate()
        self.begin_epoch(epoch)
        self._writer.begin()
        self.context.flush()

    def begin_epoch(self, epoch: int) -> None:
        """Note that the following steps belong to this epoch."""
        self.timeline.epoch = epoch
        self._batches.first = True

    def do_due(self) -> None:
        """Write the windows that are full and run the periodic calls that are due."""
        if self._fit_end.is_host_removed():
            self._fit_end.end()
            return
        batches = self._batches
        if batches.left <= 0:
            batches.left = self._writer.fill()
        if batches.calls.left <= 0:
            batches.calls.run_due()

    def finish(self, status: str, error: BaseException | None) -> None:
        """End the session: restore the Trainer and write all steps that are left."""
        with interrupts_wait():
            self._batches.note_compiling()
            try:
                end_ns = self.timeline.stop(unfinished=error is not None)
            finally:
                self.restore()
            window = self._writer.take(final=True)
        self._writer.show(window, final=True)
        self.context.end(
            status,
            steps=self.timeline.step,
            own_cost_ns_per_step=self._writer.own_ns_per_step(),
            timing_ns_per_step=self._writer.timing_ns_per_step(),
            error=error,
            wall_ns=end_ns - self.context.started_ns,
        )

    def restore(self) -> None:
        """End the timing and restore the Trainer."""
        self.running = False
        self._deactivate()
        self._batches.calls.count_with_hook()
        for listener in tuple(self.timeline.listeners):
            listener.timing_ends()
        self._proxy.restore()

    def _describe(self, start: RunStart) -> None:
        start.timer, start.phases = "tap", self._phases  # "tap" is this timer's name on disk

    def _begin_special(self) -> None:
        """Begin a batch that is the first of its epoch, or does not follow another batch."""
        batches = self._batches
        self.timeline.begin_batch(self._progress.current.ready - 1, shape_of(batches.holder.batch))
        if batches.first:
            batches.first = False
            self._proxy.time_loader()  # the iterators of the loaders exist by now

    def _note_compiling(self) -> None:
        if self._compiling is not None:
            self._batches.counters = self._compiling.write_new()

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()
