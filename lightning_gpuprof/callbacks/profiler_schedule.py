"""torch.profiler on a schedule: one whole trace per cycle, its steps cut where steps begin."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.adapters.profiler import TorchTrace, busy_profiler
from lightning_gpuprof.capture.checks import check_length, has_own_profiler, refuse_device
from lightning_gpuprof.capture.cycles import Cycles, Recorded
from lightning_gpuprof.capture.trace_files import TraceFiles
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import Note, StepFlag
from lightning_gpuprof.schedule import chosen_schedule
from lightning_gpuprof.session.guard import guarded
from lightning_gpuprof.session.recording import RecordingCallback
from lightning_gpuprof.session.step_start import StepBorders


class ProfilerSchedule(RecordingCallback):
    """Records operators, kernels and copies with torch.profiler during chosen steps or epochs.

    Each cycle writes its own trace, `rank<r>-cycle<c>.pt.trace.json.gz`, into the run's log dir,
    for Perfetto, chrome://tracing, HTA and TensorBoard. Every `ProfilerStep#<n>` in it holds one
    step from its fetch to its end; n counts the fit's batches from 0. (Without a `PhaseTimer` in
    the Trainer, steps are cut at `on_train_batch_start`.) A profiler exists only while a cycle
    runs. At its end training waits for torch to stop and to write the trace.

    While another torch profiler is at work nothing is recorded; if it begins during a cycle, the
    cycle ends. With none of the schedule's five numbers given the default window applies, and a
    run too short for it has no trace.

    Costs: about twice the time of the steps that it records, and a stop of 0.1 to 2 s after them.
    Touches: torch.profiler, which prints two lines as it starts; in these steps alone,
        `_prepare_profiler` of torch.autograd.profiler is wrapped, which is how another profiler
        that starts is noticed and given way to. Behind them Kineto leaves CUPTI attached to a GPU:
        each later launch costs a little more.
    When: 3 steps after 12, or as the schedule says.
    Switch: trace=False

    Args:
        unit: What the numbers count: "step" (a batch) or "epoch".
        wait: Units skipped once, at the start.
        warmup: Units of each cycle whose events are dropped: the first traced ones are slow.
        active: Units of each cycle that are recorded.
        repeat: Further cycles after the first.
        record_shapes: Record the shapes of operators' inputs, which rooflines need.
        profile_memory: Record allocations and frees.
        with_stack: Record Python frames: large and slow, yet names lines of code.
        trace_format: "json.gz", or "json" to leave traces uncompressed.
        ranks: The ranks that record; None for all.
        new_trace: Makes a recording; tests pass a fake.
        clock: Returns nanoseconds.

    Raises:
        ConfigError: A schedule that can never record; in `setup`, a device that torch.profiler
            is unstable on (MPS); in `on_train_start`, a given schedule that this run is too
            short for.
    """

    _of_a_run = ("_cycles", "_borders", "_files", "_trainer")

    def __init__(
        self,
        *,
        unit: str | None = None,
        wait: int | None = None,
        warmup: int | None = None,
        active: int | None = None,
        repeat: int | None = None,
        record_shapes: bool = True,
        profile_memory: bool = False,
        with_stack: bool = False,
        trace_format: str = "json.gz",
        ranks: Sequence[int] | None = (0,),
        new_trace: Callable[..., TorchTrace] = TorchTrace,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.schedule, self.explicit = chosen_schedule(unit, wait, warmup, active, repeat)
        several = isinstance(ranks, list | tuple | range | set | frozenset)
        numbers = several and all(isinstance(rank, int) for rank in ranks or ())
        if ranks is not None and not numbers:
            raise ConfigError(
                f"ProfilerSchedule(ranks={ranks!r}) names no ranks. Pass their numbers, such as "
                "(0,), or None for all."
            )
        super().__init__()
        self.options = {
            "with_stack": with_stack,
            "profile_memory": profile_memory,
            "record_shapes": record_shapes,
        }
        self.ranks = None if ranks is None else tuple(ranks)
        self._make_trace = new_trace
        self._packed = trace_format != "json"
        self._clock = clock
        self._cycles: Cycles | None = None
        self._borders: StepBorders | None = None
        self._files: TraceFiles | None = None
        self._trainer: Any = None
        self._step = -1
        self._said = False

    @property
    def recording(self) -> bool:
        """Events are being recorded now."""
        return self._cycles is not None and self._cycles.recording

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            refuse_device(trainer.strategy.root_device.type)
        super().setup(trainer, pl_module, stage)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the schedule against the run's length, now known, and begin to count."""
        output = self._output
        if output is None:
            return
        check_length(trainer, self.schedule, output, explicit=self.explicit)
        if self.ranks is not None and output.rank not in self.ranks:
            return
        self._step = -1
        self._said = False
        if has_own_profiler(trainer):
            self._say_busy("The Trainer has Lightning's own PyTorchProfiler")
            return
        self._trainer = trainer
        self._files = TraceFiles(output, packed=self._packed)
        self._cycles = Cycles(
            self.schedule,
            new_trace=partial(self._new_trace, trainer.strategy.root_device.type),
            on_recorded=self._save,
            now=self._clock,
        )
        self._borders = StepBorders(trainer, self, self._begin_step, output)

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._cycles is not None and self.schedule.unit == "epoch":
            self._cycles.begin_unit()
            if self._borders is not None and self._cycles.at_work:
                self._borders.wake()

    @override
    @guarded
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._cycles is not None:
            self._cycles.end_step()
            self._cycles.end_unit()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    @guarded
    def _begin_step(self, number: int) -> None:
        cycles, output = self._cycles, self._output
        if cycles is None or output is None:
            return
        by_step = self.schedule.unit == "step"
        passed_over, self._step = number - self._step - 1, number
        if by_step:
            cycles.pass_over(passed_over)
        if cycles.recording or (by_step and cycles.is_due()):
            # Charged to this callback: stopping and exporting take their time.
            with self._trainer.profiler.profile(f"[Callback]{self.state_key}.step_border"):
                cycles.end_step()
                if by_step:
                    cycles.begin_unit()
            cycles.begin_step(self._step)
        elif by_step:
            cycles.begin_unit()
        # The border to the next step is charged to this step.
        if cycles.at_work or (by_step and cycles.is_due()):
            output.step_flags |= StepFlag.PROFILED
        elif self._borders is not None:
            change = cycles.next_change if by_step else None
            self._borders.sleep_until(None if change is None else change - 1)

    def _new_trace(self, device_type: str) -> TorchTrace | None:
        if self._output is None or self._output.unwritten:  # which was said
            return None
        busy = busy_profiler()
        if busy is not None:
            self._say_busy(f"{busy[0].upper()}{busy[1:]} is at work")
            return None
        if (why := self._files and self._files.why_not()) is not None:
            self._leave_out("trace-failed", f"No trace is recorded: {why}.")
            return None
        return self._make_trace(device_type=device_type, on_intruder=self._give_way, **self.options)

    @guarded
    def _give_way(self) -> None:
        self._say_busy("Another torch profiler began during a cycle, which ends here")
        self._close()

    def _say_busy(self, why: str) -> None:
        self._leave_out(
            "profiler-busy",
            f"{why}; only one profiler can record at a time, so ProfilerSchedule gives way. "
            "Remove the other one to get a trace of ours.",
        )

    def _leave_out(self, name: str, message: str) -> None:
        """Note each time why nothing is recorded, and show it once."""
        if self._output is None:
            return
        self._output.note(name, message=message)
        if not self._said:
            self._said = True
            self._output.warn(message)

    @guarded
    def _save(self, recorded: Recorded) -> None:
        if self._files is None:
            return
        try:
            self._files.save(recorded)
        except OSError as error:  # no folder, no space: the next cycle may fare better
            message = f"The trace of cycle {recorded.cycle} could not be written: {error}."
            if self._output is not None:
                self._output.warn(f"{message} Training goes on.")
                note = Note(step=recorded.last_step, name="trace-failed", message=message)
                self._output.write(note)

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._cycles is not None:
            self._cycles.close()

    @override
    def _release(self) -> None:
        if self._borders is not None:
            self._borders.remove()
        cycles, self._cycles = self._cycles, None
        self._borders = self._files = self._trainer = None
        if cycles is not None:
            cycles.drop()
