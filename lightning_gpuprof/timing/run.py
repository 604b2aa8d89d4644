"""The timing of one session: clock, proxy, device marks, and the writing of windows."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.actions import own_callback_names
from lightning_gpuprof.adapters.device_events import DeviceEvents
from lightning_gpuprof.adapters.lightning import Trainer, batch_holder, batch_loop
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.runtime.compiling import CompileNotes
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.runtime.hooks import BatchCalls
from lightning_gpuprof.timing.action_regions import ActionRegions
from lightning_gpuprof.timing.attach import FIT_PHASES, ProxyTiming
from lightning_gpuprof.timing.batches import Batch, size_of
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

    A copy of a run (pickle, deepcopy) is None. `Batch` notes the beginning of each batch in it.
    """

    def __init__(
        self,
        trainer: Trainer,
        context: RunContext,
        settings: TimerSettings,
        *,
        shield: Callable[[Callable[[], object]], Callable[[], None]],
        calls: BatchCalls,
        fit_end: FitEnd,
        events: DeviceEvents | None = None,
    ) -> None:
        self.timeline = StepTimeline(PhaseClock(context.now), warmup=settings.warmup)
        self.context = context
        self.counters: Mapping[str, Any] | None = None
        self.calls = calls
        self._fit_end, self._nvtx = fit_end, settings.nvtx
        self.left = 2  # the step whose batch ends has not ended itself
        self.first = True
        self.batch_holder = batch_holder(trainer)
        self.begin_elsewhere = shield(self._begin)
        self.look_for_compiling = shield(self._look)
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
        context.phase_clock = self.timeline.clock
        context.borders = self.timeline.borders
        self.timing = self._attach(trainer, partial(Batch, run=self, on_due=shield(self.do_due)))
        context.step_count = lambda: self.timeline.step
        context.components = cache(partial(Component, self.timeline, marking=self._device))
        self._deactivate = activate(context.components)
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
        calls, again = context.calls, partial(setattr, self, "first", True)
        timing = ProxyTiming(trainer, self.timeline, actions, calls=calls, again=again)
        self._writer.choice = StepChoice(self.timeline, use=timing.mark, insists=context)
        context.timer = "tap"  # the name on disk
        context.phases = [phase.value for phase in FIT_PHASES]
        return timing

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
        self.first = True

    def _begin(self) -> None:
        """Begin an epoch's first batch: its loaders' iterators are there now."""
        batch_idx = self._batch_loop.batch_progress.current.ready - 1
        self.timeline.begin_batch(batch_idx, size_of(self.batch_holder.batch))
        if self.first:
            self.first = False
            self.timing.time_loader()

    def do_due(self) -> None:
        """A batch has run for which `due` was set: write a full window, and make rare calls."""
        if self._fit_end.gone():
            self._fit_end.end()
            return
        if self.left <= 0:
            self.left = self._writer.fill()
        if self.calls.left <= 0:
            self.calls.ring()

    def _look(self) -> None:
        self.counters = self._compiling.look()

    def finish(self, status: str, error: BaseException | None) -> None:
        """End the session: everything charged so far is written, and the Trainer restored."""
        with interrupts_wait():
            self.look_for_compiling()
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
        self.context.components = None
        self._deactivate()
        self.calls.hand_over()
        self.context.borders = None
        for border in tuple(self.timeline.borders):
            border.go_on_by_hook()
        self.timing.restore()

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()
