"""torch.profiler on a schedule: one whole trace per cycle, its steps cut where steps begin."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer, is_kind, users_profiler
from lightning_gpuprof.adapters.profiler import CAN_PAUSE, CAN_RUN_UNCOMPILED, TorchTrace
from lightning_gpuprof.capture.checks import check_length, refuse_device
from lightning_gpuprof.capture.cycles import CycleRunner
from lightning_gpuprof.capture.recordings import (
    PLAIN_STEPS,
    CaptureRange,
    Recordings,
    TraceForecast,
    pause_outside_training,
)
from lightning_gpuprof.capture.trace_files import TraceFiles
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.runtime.step_start import StepCalls
from lightning_gpuprof.schedule import chosen_schedule


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

    Costs: about twice the time of the steps that it records, and a stop of 0.1 to 2 s after them;
        before a first window of 20 steps or more, of a given schedule, the same of one step, by
        which the trace's size is forecast.
    Touches: torch.profiler, which prints two lines as it starts; in these steps alone,
        `_prepare_profiler` of torch.autograd.profiler is wrapped, which is how another profiler
        that starts is noticed and given way to. Behind them Kineto leaves CUPTI attached to a GPU:
        each later launch costs a little more. With `quiet_window` methods of the Trainer and other
        callbacks are wrapped; with `compiled="eager"` torch.compile has another stance meanwhile.
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
        quiet_window: Leave validation, checkpoints and other callbacks out of the recording (torch
            2.5); on a GPU, where each pause waits for the device, but for their hooks on batches.
            Python's stacks go on.
        compiled: "keep", or "eager" to run compiled code uncompiled in the window, where the trace
            then names its operators (torch 2.6). The arithmetic of these steps may differ.
        capture_range: Write no trace, but call `cudaProfilerStart` and `cudaProfilerStop` around
            the window, for nsys and ncu.
        ranks: The ranks that record; None for all.
        new_trace: Makes a recording; tests pass a fake.
        clock: Returns nanoseconds.

    Raises:
        ConfigError: A schedule that can never record; in `setup`, a device that torch.profiler
            is unstable on (MPS), or `capture_range` without an NVIDIA or AMD GPU; in
            `on_train_start`, a given schedule that this run is too short for.
    """

    _of_a_run = ("_cycles", "_step_calls", "_recordings", "_trainer", "_forecast")

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
        quiet_window: bool = False,
        compiled: str = "keep",
        capture_range: bool = False,
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
        if compiled not in ("keep", "eager"):
            raise ConfigError(f"compiled={compiled!r} is unknown. Pass 'keep' or 'eager'.")
        if compiled == "eager" and not CAN_RUN_UNCOMPILED:
            raise ConfigError("compiled='eager' needs torch 2.6 or newer. Leave it out.")
        super().__init__()
        self.eager = compiled == "eager"
        self._new_trace: Callable[..., TorchTrace] = partial(
            CaptureRange if capture_range else new_trace,
            eager=self.eager,
            with_stack=with_stack,
            profile_memory=profile_memory,
            record_shapes=record_shapes,
        )
        self.ranks = None if ranks is None else tuple(ranks)
        self.capture_range, self.quiet_window = capture_range, quiet_window
        self._compressed = trace_format != "json"
        self._clock = clock
        self._cycles: CycleRunner | None = None
        self._step_calls: StepCalls | None = None
        self._recordings: Recordings | None = None
        self._forecast: TraceForecast | None = None
        self._trainer: Any = None
        self._step = -1

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            refuse_device(trainer.strategy.root_device.type, capture_range=self.capture_range)
        super().setup(trainer, pl_module, stage)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the schedule against the run's length, known by now, and begin to count."""
        context = self._context
        if context is None:
            return
        check_length(trainer, self.schedule, context, explicit=self.explicit)
        if self.ranks is not None and context.rank not in self.ranks:
            return
        self._step = -1
        self._trainer = trainer
        quiet = self.quiet_window and CAN_PAUSE and not self.capture_range
        self._forecast = TraceForecast(
            self.schedule,
            1 if self.schedule.unit == "step" else trainer.num_training_batches,
            explicit=self.explicit and not self.capture_range,
            now=self._clock,
        )
        device = trainer.strategy.root_device.type
        self._recordings = Recordings(
            context,
            TraceFiles(context, compressed=self._compressed, quiet=quiet),
            self._forecast,
            partial(self._new_trace, device_type=device, on_intruder=self._give_way),
            eager=self.eager,
        )
        if is_kind(users_profiler(trainer), "PyTorchProfiler"):
            self._recordings.note_busy("The Trainer has Lightning's own PyTorchProfiler")
            return
        self._cycles = CycleRunner(
            self.schedule,
            new_trace=self._recordings.new,
            on_recorded=self._recordings.save,
            now=self._clock,
        )
        if quiet:
            pause_outside_training(trainer, context.wrappers, self._collect)
        self._step_calls = StepCalls(trainer, self, self._begin_step, self._timing)

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        cycles, forecast = self._cycles, self._forecast
        if cycles is None or forecast is None:
            return
        forecast.begin_epoch()
        if self.schedule.unit == "epoch":
            cycles.begin_unit()
            soon = forecast.needs_step and cycles.is_due()
            if self._step_calls is not None and (cycles.active or soon):
                self._step_calls.wake()

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
        cycles, forecast, context = self._cycles, self._forecast, self._context
        if cycles is None or forecast is None or context is None:
            return
        by_step = self.schedule.unit == "step"
        passed_over, self._step = number - self._step - 1, number
        if by_step:
            cycles.skip(passed_over)
        works = cycles.recording or forecast.needs_step or (by_step and cycles.is_due())
        # Charged to this callback: stopping and exporting take their time.
        action = f"[Callback]{self.state_key}.step_begins"
        with self._trainer.profiler.profile(action) if works else nullcontext():
            forecast.begin_step(plain=not (passed_over or cycles.active))
            cycles.end_step()
            if by_step:
                cycles.begin_unit()
            if forecast.step_is_due and cycles.is_due():
                forecast.needs_step = False
                cycles.probe()
        cycles.begin_step(number)
        # What ends this step at the beginning of the next is charged to this step.
        if cycles.active or forecast.needs_step or (by_step and cycles.is_due()):
            if self._timing is not None:
                self._timing.flag_next_step(StepFlag.PROFILED)
        if self._step_calls is not None and not (
            cycles.active or (cycles.is_due() and (by_step or forecast.needs_step))
        ):
            change = cycles.next_change if by_step else None
            early = 1 + PLAIN_STEPS * forecast.needs_step
            self._step_calls.sleep_until(None if change is None else change - early)

    @guarded
    def _give_way(self) -> None:
        if self._recordings is not None:
            self._recordings.note_busy(
                "Another torch profiler began during a cycle, which ends here"
            )
        self._close()

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._cycles is not None:
            self._cycles.close()

    @guarded
    def _collect(self, on: bool) -> None:
        if self._cycles is not None:
            self._cycles.collect(on)

    @override
    def _release(self) -> None:
        if self._step_calls is not None:
            self._step_calls.remove()
        cycles, self._cycles = self._cycles, None
        self._step_calls = self._recordings = self._forecast = self._trainer = None
        if cycles is not None:
            cycles.drop()
