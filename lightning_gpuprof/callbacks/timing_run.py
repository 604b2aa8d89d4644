"""What a `PhaseTimer` holds for the length of one session."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Trainer
from lightning_gpuprof.callbacks.compile_watch import CompileWatch
from lightning_gpuprof.callbacks.component import Component
from lightning_gpuprof.callbacks.console import profile_line, say
from lightning_gpuprof.callbacks.device_marking import DeviceMarking
from lightning_gpuprof.callbacks.hook_timing import HOOK_PHASES, HookTiming
from lightning_gpuprof.callbacks.own_cost import OwnCost
from lightning_gpuprof.callbacks.region import ActiveComponents
from lightning_gpuprof.callbacks.run_output import RunOutput
from lightning_gpuprof.callbacks.step_choice import StepChoice
from lightning_gpuprof.callbacks.tapping import EVALUATION_PHASES, Tapping, own_callback_names
from lightning_gpuprof.callbacks.timed_calls import untimed
from lightning_gpuprof.callbacks.windows import (
    Layout,
    Window,
    joined_totals,
    outside_span,
    passed_over_span,
)
from lightning_gpuprof.probes.device_events import DeviceEvents
from lightning_gpuprof.probes.device_marks import DeviceMarks
from lightning_gpuprof.probes.phase_clock import Int64, PhaseClock
from lightning_gpuprof.probes.step_timeline import UNKNOWN_SAMPLES, StepTimeline
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import COMPILE_NOTE, Note, StepFlag

_SCALARS_EVERY_NS = 1_000_000_000
"""A dozen scalars take a logger about half a millisecond: at this pace 0.05 % of the time."""


_WRITE_EVERY_NS = 250_000_000
_MOST_WAITING = 10
"""Full windows wait for this long, at most this many: a write costs a loop of short steps half a
millisecond, since none of it is in the processor's caches, and several windows at a time cost
little more than one. The first ones, by which it is judged what a step costs, do not wait."""

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
        events: DeviceEvents | None = None,
    ) -> None:
        self.evaluating = output.stage != "fit"
        self.timeline = StepTimeline(PhaseClock(output.now), warmup=warmup)
        self._output = output
        self._window = window
        self._console = console and output.rank == 0
        self._scalars = scalars and output.rank == 0 and not self.evaluating
        self._scalars_ns: int | None = None
        self._compiles = CompileWatch()
        self._choice: StepChoice | None = None
        self._most_waiting = 1
        self._full_windows = 0
        self._written_ns = output.started_ns
        self._ended = False
        self._left = window + 1  # the step whose batch ends has not ended itself
        self._cost = OwnCost(overhead_budget)
        self._layout = Layout(())
        self._own_names = own_callback_names(trainer)
        self._trainer = trainer
        self._epoch_loop: Any = trainer.fit_loop.epoch_loop
        self._batch_idx = -1
        self.timeline.start(output.started_ns)
        self.device: DeviceMarking | None = None
        if events is not None:
            marks = DeviceMarks(events, output.now)
            self.device = DeviceMarking(marks, self.timeline, output, budget=overhead_budget)
            self.device.calibrate()
        self.tapping: Tapping | HookTiming
        phases = EVALUATION_PHASES if self.evaluating else tuple(Phase)
        try:
            self.tapping = Tapping(
                trainer,
                self.timeline,
                evaluating=self.evaluating,
                on_ran=shield(self.batch_ran),
                watch=None if self.device is None else self.device.watch,
            )
            output.timer = "tap"
            if self.tapping.sees_batches:
                tap = self.tapping.tap
                self._choice = StepChoice(
                    self.timeline, use=tap.mark, insists=lambda: output.step_flags
                )
        except AttributeError:
            self.tapping = HookTiming(trainer, self.timeline)
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
        return Component(self.timeline.clock, name, self.device)

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch of the steps to come."""
        self.timeline.epoch = epoch
        self._batch_idx = -1

    def batch_ran(self, batch: Any = None, batch_idx: int = -1) -> None:
        """Note what is known of a step once its batch has run; write a full window.

        For every step: a training loop leaves nothing of this in the processor's caches, where
        each function that is called costs about a microsecond. So it is all in one.

        Args:
            batch: With its index as a hook was given them; else the loop is asked.
            batch_idx: -1 for a call without them.
        """
        timeline, output = self.timeline, self._output
        if batch_idx < 0:
            loop = self._epoch_loop
            batch, batch_idx = loop._results.batch, self._batch_idx + 1
            if not batch_idx:  # an epoch's first: its loaders' iterators are there now
                batch_idx = loop.batch_idx
                self.tapping.time_loader()
            self._batch_idx = batch_idx
        first = batch[0] if type(batch) in _ROWS and batch else batch
        try:
            samples = first.size(0) if type(first) is torch.Tensor else batch_size(batch)
        except IndexError:
            samples = UNKNOWN_SAMPLES
        timeline.end_batch(batch_idx, samples)
        if output.step_flags:
            timeline.flags |= output.step_flags
            output.step_flags = 0
        dynamo = _MODULES.get("torch._dynamo.utils")
        if dynamo is not None and dynamo.counters and self._compiles.compiled_since(dynamo):
            timeline.flags |= StepFlag.COMPILED
            took_ns = self._compiles.took_ns()
            if took_ns:
                output.write(Note(step=timeline.step, name=COMPILE_NOTE, value=took_ns))
        self._left -= 1
        if self._left <= 0:
            self._left = self._window * (1 if self._choice is None else self._choice.every)
            self._full_windows += 1
            begun = output.now()
            late = begun - self._written_ns > _WRITE_EVERY_NS
            if late or self._full_windows >= self._most_waiting:
                self._write_windows()
                self._written_ns = output.now()
                self._cost.wrote(self._written_ns - begun, in_marked=timeline.marked)

    def finish(self, status: str, error: BaseException | None) -> None:
        """End the session: everything charged so far is written, and the Trainer restored."""
        end_ns = self.timeline.stop(unfinished=error is not None)
        self.restore()
        self._ended = True
        self._write_windows()
        steps = self.timeline.step
        self._output.end(
            status,
            steps=steps,
            own_cost_ns_per_step=self._own_ns_per_step(),
            profiler_stall_ns=self._cost.profiler_stall_ns or None,
            error=error,
            wall_ns=end_ns - self._output.started_ns,
        )

    def restore(self) -> None:
        """Put the Trainer back as it was."""
        self._output.components = None
        self._components.deactivate()
        self.tapping.restore()

    def _write_windows(self) -> None:
        """Write the windows that are full, or at the end all that is left."""
        timeline, output, slots = self.timeline, self._output, self.timeline.clock.slots
        self._full_windows = 0
        for outside in timeline.outside:
            output.write(outside_span(outside, slots, origin_ns=output.started_ns))
        timeline.outside.clear()
        facts, charged = self._marked_rows()
        if self.device is not None:
            facts, charged = self.device.ready(facts, charged, final=self._ended)
        if self._layout.width != len(slots):
            self._layout = Layout(slots, self._own_names)
        steps = self._steps_per_record(len(facts))
        windows = [
            Window(facts[at : at + steps], charged[at : at + steps], self._layout,
                   origin_ns=output.started_ns)
            for at in range(0, len(facts), steps)
        ]  # fmt: skip
        for window in windows:
            self._write_window(window)
        if windows and self._console:
            say(profile_line(*joined_totals(windows)))
        if not self._ended:
            self._keep_to_budget()
        output.flush()

    def _steps_per_record(self, rows: int) -> int:
        """Return the window, or close to it where some steps more or less than it were marked."""
        if self._choice is None or self._choice.every == 1:
            return self._window
        return max(1, -(-rows // max(1, round(rows / self._window))))

    def _marked_rows(self) -> tuple[Int64, Int64]:
        """Take the finished steps' rows; what was not marked of them is written at once."""
        facts, charged = self.timeline.take_rows()
        if self._choice is None or not len(facts):
            return facts, charged
        marked = self._choice.is_marked(facts[:, 0])
        if not marked.all():
            slots, origin_ns = self.timeline.clock.slots, self._output.started_ns
            rest = passed_over_span(facts[~marked], charged[~marked], slots, origin_ns=origin_ns)
            self._output.write(rest)
            self._cost.passed(int((~marked).sum()))
        return facts[marked], charged[marked]

    def _write_window(self, window: Window) -> None:
        device = self.device
        more = {} if device is None else device.columns(window.steps, window.total_ns)
        self._output.write(window.record(more))
        self._cost.add(window)
        if self._scalars:
            self._log_scalars(window)

    def _log_scalars(self, window: Window) -> None:
        trainer: Any = self._trainer
        now = self._output.now()
        early = self._scalars_ns is not None and now - self._scalars_ns < _SCALARS_EVERY_NS
        if early or trainer.fast_dev_run or trainer.barebones:
            return
        self._scalars_ns = now
        scalars = {f"gpuprof/{name}": value for name, value in window.median_ms().items()}
        # The step under which Lightning itself would log now: the user's numbering stays whole.
        step = max(0, self._epoch_loop._batches_that_stepped - self._ended)
        for logger in trainer.loggers:
            untimed(logger.log_metrics)(scalars, step=step)

    def _own_ns_per_step(self) -> int | None:
        self._cost.saw(self.timeline.clock.boundaries)
        own_ns = self._cost.ns_per_step()
        if own_ns is None or self.device is None:
            return own_ns
        return own_ns + round(self.device.cost_ns_per_step)

    def _keep_to_budget(self) -> None:
        self._cost.saw(self.timeline.clock.boundaries)
        every, choice = self._cost.spacing(), self._choice
        if every is not None:
            self._most_waiting = _MOST_WAITING
        if every is None or choice is None or choice.every // 2 < every <= choice.every:
            return
        first = choice.every == 1
        choice.spread(every)
        self._left = self._window * every
        self._scalars = False
        message = self._cost.explain(every)
        note = Note(step=self.timeline.step, name="overhead-budget", value=every, message=message)
        self._output.write(note)
        if self._console and first:
            say(f"[PROFILE] {message}")

    @override
    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _no_run, ()


def batch_size(batch: Any) -> int:
    """Return the first dimension of the first tensor in a batch, or `UNKNOWN_SAMPLES`.

    >>> batch_size((torch.zeros(8, 3), torch.zeros(8)))
    8
    >>> batch_size({"x": torch.zeros(4)}), batch_size("text"), batch_size(torch.tensor(1))
    (4, -1, -1)
    """
    while not isinstance(batch, torch.Tensor):
        if isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        elif isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            return UNKNOWN_SAMPLES
    return batch.size(0) if batch.dim() else UNKNOWN_SAMPLES


def _no_run() -> None:
    return None
