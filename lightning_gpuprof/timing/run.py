"""What a `PhaseTimer` holds for the length of one session."""

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.dynamo import Compilations, CompileLimits, counters
from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.records.compiling import LIMIT_NOTE
from lightning_gpuprof.records.schema import COMPILE_NOTE, Note, StepFlag
from lightning_gpuprof.session.hooks import BatchCalls
from lightning_gpuprof.session.interrupts import interrupts_wait
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.timing.attach import (
    EVALUATION_PHASES,
    FIT_PHASES,
    Tapping,
    own_callback_names,
)
from lightning_gpuprof.timing.batches import Batches, batch_size, size_of
from lightning_gpuprof.timing.components import ActiveComponents, Component
from lightning_gpuprof.timing.device_events import DeviceEvents
from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.device_marks import DeviceMarks
from lightning_gpuprof.timing.hook_timing import HOOK_PHASES, HookTiming
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.step_choice import StepChoice
from lightning_gpuprof.timing.step_timeline import StepTimeline
from lightning_gpuprof.timing.window_writer import WindowWriting


class TimingRun:
    """The tap, the timeline and the window being filled.

    A copy of a run (pickle, deepcopy) is None.
    """

    def __init__(
        self,
        trainer: Trainer,
        output: RunOutput,
        *,
        window: int,
        warmup: int,
        console: bool,
        scalars: bool,
        overhead_budget: float,
        shield: Callable[[Callable[[], object]], Callable[[], None]],
        calls: BatchCalls,
        events: DeviceEvents | None = None,
    ) -> None:
        self.evaluating = output.stage != "fit"
        self.timeline = StepTimeline(PhaseClock(output.now), warmup=warmup)
        self.output = output
        self._compiles = Compilations()
        self.counters: Mapping[str, Any] | None = None
        self.calls = calls
        self.left = window + 1  # the step whose batch ends has not ended itself
        self.epoch_loop: Any = trainer.fit_loop.epoch_loop
        self.first = True
        self.begin_elsewhere = shield(self._begin)
        self.look_for_compiling = shield(self._look)
        self.timeline.start(output.started_ns)
        self._writing = WindowWriting(
            trainer,
            output,
            self.timeline,
            window=window,
            console=console and output.rank == 0,
            scalars=scalars and output.rank == 0 and not self.evaluating,
            overhead_budget=overhead_budget,
            own_names=own_callback_names(trainer),
        )
        self.device: DeviceMarking | None = None
        if events is not None:
            marks = DeviceMarks(events, output.now)
            self.device = DeviceMarking(marks, self.timeline, output, budget=overhead_budget)
            self.device.calibrate()
            self._writing.device = self.device
        self.tapping: Tapping | HookTiming
        output.phase_clock = self.timeline.clock
        phases = EVALUATION_PHASES if self.evaluating else FIT_PHASES
        try:
            self.tapping = Tapping(
                trainer,
                self.timeline,
                evaluating=self.evaluating,
                batches=Batches(self, shield(self.what_is_due)),
                watch=None if self.device is None else self.device.watch,
            )
            output.timer = "tap"
            if self.tapping.sees_batches:
                use = self.tapping.mark
                self._writing.choice = StepChoice(self.timeline, use=use, insists=output)
        except AttributeError:
            self.tapping = HookTiming(trainer, self.timeline, self._take_flags)
            output.timer, phases = "hooks", HOOK_PHASES
        output.phases = [phase.value for phase in phases]
        output.count_steps(lambda: self.timeline.step)
        self._components = ActiveComponents(self.component)
        self._components.activate()
        output.components = self._components.get
        self._limits = CompileLimits()

    def begin_training(self, trainer: Trainer) -> None:
        """Training is about to start: optimizers and loaders are there now."""
        self.tapping.time_manual_optimization()
        if self.device is not None:
            self.device.calibrate()
        self.begin_epoch(trainer.current_epoch)
        self.output.flush()

    def component(self, name: str) -> Component:
        """Return the region of a named component, on the host and the device."""
        return Component(self.timeline, name, self.device)

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch of the steps to come."""
        self.timeline.epoch = epoch
        self.first = True

    def _begin(self) -> None:
        """Begin an epoch's first batch: its loaders' iterators are there now."""
        loop = self.epoch_loop
        self.timeline.begin_batch(loop.batch_idx, size_of(loop._results.batch))
        if self.first:
            self.first = False
            self.tapping.time_loader()

    def what_is_due(self) -> None:
        """A batch has run for which `due` was set: write a full window, and see to rare calls."""
        if self.left <= 0:
            self.left = self._writing.fill()
        if self.calls.left <= 0:
            self.calls.ring()

    def batch_ran(self, batch: Any, batch_idx: int) -> None:
        """Note a batch that only a hook told of, when it had run."""
        timeline = self.timeline
        timeline.end_batch(batch_idx, batch_size(batch))
        if self.evaluating or isinstance(self.tapping, Tapping):
            self._take_flags()
        self.look_for_compiling()
        self.left -= 1
        self.calls.left -= 1
        self.what_is_due()

    def _take_flags(self) -> None:
        """Take what others say of the step now running."""
        self.timeline.flags |= self.output.step_flags
        self.output.step_flags = 0

    def _look(self) -> None:
        """Flag the step of the batch that began last, if torch.compile compiled something in it."""
        self.counters = counters()
        if self.counters is None:
            return
        for given_up in self._limits.take():
            self.output.write(Note(step=self.timeline.step, name=LIMIT_NOTE, value=given_up))
        if not self._compiles.compiled_since():
            return
        took_ns, step = self._compiles.took_ns(), self.timeline.flag_last_batch(StepFlag.COMPILED)
        if took_ns and step is not None:
            self.output.write(Note(step=step, name=COMPILE_NOTE, value=took_ns))

    def finish(self, status: str, error: BaseException | None) -> None:
        """End the session: everything charged so far is written, and the Trainer restored."""
        with interrupts_wait():
            self.look_for_compiling()
            try:
                end_ns = self.timeline.stop(unfinished=error is not None)
            finally:
                self.restore()
            window = self._writing.take(final=True)
        self._writing.tell(window, final=True)
        self.output.end(
            status,
            steps=self.timeline.step,
            own_cost_ns_per_step=self._writing.own_ns_per_step(),
            profiler_stall_ns=self._writing.cost.profiler_stall_ns or None,
            error=error,
            wall_ns=end_ns - self.output.started_ns,
        )

    def restore(self) -> None:
        """Put the Trainer back as it was."""
        self._limits.close()
        self.output.components = None
        self._components.deactivate()
        self.calls.hand_over()
        self.tapping.restore()

    @override
    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _no_run, ()


def _no_run() -> None:
    return None
