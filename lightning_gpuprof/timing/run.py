"""The timing of one session: clock, proxy, device marks, and the writing of windows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.actions import own_callback_names
from lightning_gpuprof.adapters.device_events import DeviceEvents
from lightning_gpuprof.adapters.lightning import Trainer, batch_holder, batch_loop
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import RunStart, StepFlag
from lightning_gpuprof.runtime.compiling import CompileNotes
from lightning_gpuprof.runtime.context import RunContext, StepListener
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.runtime.hooks import PeriodicCalls
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.attach import FIT_PHASES, ProxyTiming
from lightning_gpuprof.timing.batches import Batch, BatchState, size_of
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
    """The state of a `PhaseTimer` for the length of one session.

    It is what other parts of the session get as its `StepTiming`. A copy of it (pickle, deepcopy)
    is None.
    """

    def __init__(
        self,
        trainer: Trainer,
        context: RunContext,
        settings: TimerSettings,
        *,
        shield: Callable[[Callable[[], object]], Callable[[], None]],
        calls: PeriodicCalls,
        fit_end: FitEnd,
        events: DeviceEvents | None = None,
    ) -> None:
        self.timeline = StepTimeline(PhaseClock(context.now), warmup=settings.warmup)
        self.context = context
        self.running = True
        self._phases = [phase.value for phase in FIT_PHASES]
        self._fit_end, self._nvtx = fit_end, settings.nvtx
        self._batches = BatchState(
            self.timeline,
            calls,
            batch_holder(trainer),
            begin_elsewhere=shield(self._begin),
            look_for_compiling=shield(self._look),
            on_due=shield(self.do_due),
        )
        self._batch_loop: Any = batch_loop(trainer)
        self.timeline.clock.start(context.started_ns)
        self._writer = WindowWriter(
            trainer, context, self.timeline, settings, own_names=own_callback_names(trainer)
        )
        self._device: DeviceMarking | None = None
        if events is not None:
            marks = DeviceMarks(events, context.now)
            self._device = DeviceMarking(
                marks, self.timeline, context, budget=settings.overhead_budget
            )
            self._device.calibrate()
            self._writer.device = self._device
        self.timing = self._attach(trainer, partial(Batch, state=self._batches))
        context.at_start(self._describe)
        context.count_steps_by(self.timeline)
        self.part = cache(partial(Component, self.timeline, marking=self._device))
        self._deactivate = activate(self.part)
        flag = partial(self.timeline.flag_last_batch, StepFlag.COMPILED)
        self._compiling = CompileNotes(context, flag)

    def _attach(self, trainer: Trainer, batch: Callable[..., Batch]) -> ProxyTiming:
        context = self.context
        watch = None if self._device is None else self._device.watch
        actions = ActionRegions(
            trainer,
            self.timeline,
            batch=batch,
            fit_end=self._fit_end,
            watch=partial(ranges, watch) if self._nvtx else watch,
        )
        # A loader has a new iterator: its parts are timed from the next batch on.
        wrappers, again = context.wrappers, partial(setattr, self._batches, "first", True)
        timing = ProxyTiming(trainer, self.timeline, actions, wrappers=wrappers, again=again)
        self._writer.choice = StepChoice(self.timeline, use=timing.mark)
        return timing

    @property
    def step(self) -> int:
        """Number of the running step, from 0."""
        return self.timeline.step

    @property
    def listeners(self) -> list[StepListener]:
        """Parts that are told before a step begins."""
        return self.timeline.listeners

    def garbage_collections(self) -> AbstractContextManager[Any]:
        """Return the region of full garbage collections, a phase that is measured from now on."""
        if (name := Phase.GARBAGE_COLLECTION.value) not in self._phases:
            self._phases.append(name)
        return self.timeline.clock.collections()

    def flag_next_step(self, flag: int) -> None:
        """Flag the step whose batch begins next."""
        self.timeline.next_flags |= flag

    def _describe(self, start: RunStart) -> None:
        start.timer, start.phases = "tap", self._phases  # the timer's name on disk

    def begin_training(self, trainer: Trainer) -> None:
        """Training is about to start: optimizers and loaders are there now."""
        self.timing.time_manual_optimization()
        if self._device is not None:
            self._device.calibrate()
        self.begin_epoch(trainer.current_epoch)
        self._writer.begin()
        self.context.flush()

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch of the steps to come."""
        self.timeline.epoch = epoch
        self._batches.first = True

    def _begin(self) -> None:
        """Begin an epoch's first batch: its loaders' iterators are there now."""
        batch_idx = self._batch_loop.batch_progress.current.ready - 1
        self.timeline.begin_batch(batch_idx, size_of(self._batches.holder.batch))
        if self._batches.first:
            self._batches.first = False
            self.timing.time_loader()

    def do_due(self) -> None:
        """Write the windows that are full and run the periodic calls that are due."""
        if self._fit_end.gone():
            self._fit_end.end()
            return
        batches = self._batches
        if batches.left <= 0:
            batches.left = self._writer.fill()
        if batches.calls.left <= 0:
            batches.calls.run_due()

    def _look(self) -> None:
        self._batches.counters = self._compiling.look()

    def finish(self, status: str, error: BaseException | None) -> None:
        """End the session: everything charged so far is written, and the Trainer restored."""
        with interrupts_wait():
            self._batches.look_for_compiling()
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
            error=error,
            wall_ns=end_ns - self.context.started_ns,
        )

    def restore(self) -> None:
        """Put the Trainer back as it was."""
        self.running = False
        self._deactivate()
        self._batches.calls.count_with_hook()
        for listener in tuple(self.timeline.listeners):
            listener.timing_ends()
        self.timing.restore()

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()
