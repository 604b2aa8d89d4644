"""What a `PhaseTimer` holds for the length of one session."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Trainer
from lightning_gpuprof.callbacks.dispatch import BatchCalls
from lightning_gpuprof.callbacks.guard import attempt
from lightning_gpuprof.callbacks.output.run_output import RunOutput
from lightning_gpuprof.callbacks.region import ActiveComponents
from lightning_gpuprof.callbacks.tap.tap_regions import BatchCalled
from lightning_gpuprof.callbacks.tap.tapping import (
    EVALUATION_PHASES,
    FIT_PHASES,
    Tapping,
    own_callback_names,
)
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.callbacks.timing.component import Component
from lightning_gpuprof.callbacks.timing.device_marking import DeviceMarking
from lightning_gpuprof.callbacks.timing.hook_timing import HOOK_PHASES, HookTiming
from lightning_gpuprof.callbacks.timing.step_choice import StepChoice
from lightning_gpuprof.callbacks.timing.window_writing import WindowWriting
from lightning_gpuprof.probes.clock.device_events import DeviceEvents
from lightning_gpuprof.probes.clock.device_marks import DeviceMarks
from lightning_gpuprof.probes.clock.phase_clock import PhaseClock
from lightning_gpuprof.probes.clock.step_timeline import UNKNOWN_SAMPLES, StepTimeline
from lightning_gpuprof.records.schema import COMPILE_NOTE, Note, StepFlag

_ROWS = (tuple, list)
_MODULES = sys.modules


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
        self._output = output
        self._compiles = CompileWatch()
        self._counters: Mapping[str, Any] | None = None
        self._calls = calls
        self._left = window + 1  # the step whose batch ends has not ended itself
        self._epoch_loop: Any = trainer.fit_loop.epoch_loop
        self._first = True
        self._begin_elsewhere = shield(self._begin)
        self._look_for_compiling = shield(self._look)
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
                called=BatchCalled(self.batch_begins, shield(self.what_is_due)),
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

    def begin_training(self, trainer: Trainer) -> None:
        """Training is about to start: optimizers and loaders are there now."""
        self.tapping.time_manual_optimization()
        if self.device is not None:
            self.device.calibrate()
        self.begin_epoch(trainer.current_epoch)
        self._output.flush()

    def component(self, name: str) -> Component:
        """Return the region of a named component, on the host and the device."""
        return Component(self.timeline, name, self.device)

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch of the steps to come."""
        self.timeline.epoch = epoch
        self._first = True

    def batch_begins(self) -> None:
        """Note what is known of a step when its batch begins to run.

        For every step, when there is something of it in the processor's caches: the loader
        and the copy to the device have just had the batch in their hands. After it has been trained
        nothing is left there. Each function that is called costs a microsecond or two all the
        same, so all is in this one, with no guard: what may fail is called behind it.
        """
        timeline, output = self.timeline, self._output
        counters = self._counters
        if counters or counters is None:
            self._look_for_compiling()
        if self._first or timeline.ran or timeline.begun:
            self._begin_elsewhere()
        else:
            batch = self._epoch_loop._results.batch
            first = batch[0] if type(batch) in _ROWS and batch else batch
            try:  # costs nothing; `size(0)` and `dim()` instead are 0.1 us more, in the caches
                shape = first.shape if type(first) is Tensor else ()
            except RuntimeError:  # a nested tensor
                shape = ()
            # An index into `torch.Size` is a call of torch's, this is none.
            samples = next(iter(shape), None)
            timeline.samples.append(_size_of(batch) if samples is None else samples)
            timeline.begun = True
        if output.step_flags:
            timeline.flags |= output.step_flags
            output.step_flags = 0
        self._left -= 1
        self._calls.left -= 1
        timeline.due = self._left <= 0 or self._calls.left <= 0

    def _begin(self) -> None:
        """Begin an epoch's first batch: its loaders' iterators are there now."""
        loop = self._epoch_loop
        self.timeline.begin_batch(loop.batch_idx, _size_of(loop._results.batch))
        if self._first:
            self._first = False
            self.tapping.time_loader()

    def what_is_due(self) -> None:
        """A batch has run for which `due` was set: write a full window, and see to rare calls."""
        if self._left <= 0:
            self._left = self._writing.fill()
        if self._calls.left <= 0:
            self._calls.ring()

    def batch_ran(self, batch: Any, batch_idx: int) -> None:
        """Note a batch that only a hook told of, when it had run."""
        timeline = self.timeline
        timeline.end_batch(batch_idx, batch_size(batch))
        if self.evaluating or isinstance(self.tapping, Tapping):
            self._take_flags()
        self._look_for_compiling()
        self._left -= 1
        self._calls.left -= 1
        self.what_is_due()

    def _take_flags(self) -> None:
        """Take what others say of the step now running."""
        self.timeline.flags |= self._output.step_flags
        self._output.step_flags = 0

    def _look(self) -> None:
        """Flag the step of the batch that began last, if torch.compile compiled something in it."""
        dynamo = _MODULES.get("torch._dynamo.utils")
        if dynamo is None:
            return
        self._counters = dynamo.counters
        if not self._compiles.compiled_since(dynamo):
            return
        took_ns, step = self._compiles.took_ns(), self.timeline.flag_last_batch(StepFlag.COMPILED)
        if took_ns and step is not None:
            self._output.write(Note(step=step, name=COMPILE_NOTE, value=took_ns))

    def finish(self, status: str, error: BaseException | None) -> None:
        """End the session: everything charged so far is written, and the Trainer restored."""
        self._look_for_compiling()
        try:
            end_ns = self.timeline.stop(unfinished=error is not None)
        finally:
            self.restore()
        self._writing.write(final=True)
        self._output.end(
            status,
            steps=self.timeline.step,
            own_cost_ns_per_step=self._writing.own_ns_per_step(),
            profiler_stall_ns=self._writing.cost.profiler_stall_ns or None,
            error=error,
            wall_ns=end_ns - self._output.started_ns,
        )

    def restore(self) -> None:
        """Put the Trainer back as it was."""
        self._output.components = None
        self._components.deactivate()
        self._calls.hand_over()
        self.tapping.restore()

    @override
    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _no_run, ()


def batch_size(batch: Any) -> int:
    """Return the first dimension of the first tensor in a batch, or `UNKNOWN_SAMPLES`.

    >>> from torch import zeros
    >>> batch_size((zeros(8, 3), zeros(8)))
    8
    >>> batch_size({"x": zeros(4)}), batch_size("text"), batch_size(zeros(()))
    (4, -1, -1)
    """
    while not isinstance(batch, Tensor):
        if isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        elif isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            return UNKNOWN_SAMPLES
    return batch.size(0) if batch.dim() else UNKNOWN_SAMPLES


def _size_of(batch: Any) -> int:
    """Return `batch_size`, also where a user's own type of batch fails when it is asked."""
    return attempt(partial(batch_size, batch), UNKNOWN_SAMPLES)


def _no_run() -> None:
    return None
