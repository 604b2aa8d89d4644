"""Records with torch.profiler on a schedule, and writes a trace per cycle."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from threading import Event, get_ident
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters import cupti
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer, is_kind, users_profiler
from lightning_gpuprof.adapters.profiler import CAN_PAUSE, CAN_RUN_UNCOMPILED, TorchTrace
from lightning_gpuprof.capture.checks import check_length, fit_length, refuse_device
from lightning_gpuprof.capture.cycles import CycleRunner
from lightning_gpuprof.capture.recordings import (
    CaptureRange,
    Recordings,
    TraceForecast,
    pause_outside_training,
)
from lightning_gpuprof.capture.step_windows import (
    LEAD,
    WARMUP,
    ExtraWindow,
    StepWindows,
    WindowResult,
)
from lightning_gpuprof.capture.trace_files import TraceFiles
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.runtime import fits
from lightning_gpuprof.runtime.guard import guarded, is_disabled
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.runtime.step_start import StepCalls
from lightning_gpuprof.schedule import chosen_schedule

MOST_WAIT_S = 5.0
"""How long another profiler in another thread waits for the running step to end."""
SCHEDULED = "a window of the schedule began, which comes first"


class ProfilerSchedule(RecordingCallback):
    """Records operators, kernels and copies with torch.profiler during chosen steps or epochs.

    Each cycle writes its own trace, `rank<r>-cycle<c>.pt.trace.json.gz`, into the run's log dir,
    for Perfetto, chrome://tracing, HTA and TensorBoard. Every `ProfilerStep#<n>` in it holds a step
    from its fetch to its end, and n counts the batches of the fit from 0. (Without a `PhaseTimer`
    in the Trainer, a step begins at `on_train_batch_start`.) A profiler exists only during a cycle.
    At the end of a cycle, training waits until torch has stopped recording and written the trace.

    While another torch profiler is active, or another thread of the process trains with callbacks
    of this package, nothing is recorded. If either begins during a cycle, the cycle ends. If none
    of the five settings of the schedule is given, the default schedule applies, and a run that is
    too short for it has no trace.

    Costs: about twice the time of the steps that it records, and a pause of 0.1 to 2 s after them.
        If a schedule is given whose first window has 20 steps or more, the same for a single step
        before it, which serves to forecast the size of the trace.
    Touches: torch.profiler, which prints two lines when it starts. In the recorded steps only,
        `_prepare_profiler` of torch.autograd.profiler is wrapped, by which this callback notices
        another profiler and gives way to it. Afterwards Kineto leaves CUPTI attached to a GPU, so
        that every later launch costs a little more (`teardown` changes that). With `quiet_window`,
        methods of the Trainer and of other callbacks are wrapped. With `compiled="eager"`,
        torch.compile has another stance in the recorded steps.
    When: 3 steps after 12, or as the schedule says.
    Switch: trace=False

    Args:
        unit: What the numbers count: "step" (a batch) or "epoch".
        wait: Units that are skipped once, at the start.
        warmup: Units of each cycle whose events are discarded, since the first ones are slow.
        active: Units of each cycle that are recorded.
        repeat: Further cycles after the first.
        record_shapes: Record the shapes of operators' inputs, which rooflines need.
        profile_memory: Record allocations and frees.
        with_stack: Record Python frames, which name lines of code but make traces large and slow.
        trace_format: "json.gz", or "json" to leave traces uncompressed.
        quiet_window: Leave validation, checkpoints and other callbacks out of the recording (needs
            torch 2.5). On a GPU, their hooks on batches are still recorded, because every pause
            waits for the device. Python stacks are always recorded.
        compiled: "keep", or "eager" to run compiled code uncompiled in the window, so that the
            trace names its operators (needs torch 2.6). The arithmetic of these steps may differ.
        capture_range: Write no trace, but call `cudaProfilerStart` and `cudaProfilerStop` around
            the window, for nsys and ncu.
        teardown: "on" to detach CUPTI from the GPU behind the last window, where that is safe;
            "off"; or "auto", which is off until a device has proven it. With "on", no window can
            be opened beside the schedule on a GPU.
        ranks: The ranks that record; None for all.
        captures: Whether `open_window` may be called, which opens a window beside the schedule, on
            any rank.
        new_trace: Creates a recording; tests pass a fake.
        clock: Returns nanoseconds.

    Raises:
        ConfigError: The schedule can never record; in `setup`, torch.profiler is unstable on the
            device (MPS), or `capture_range` is set without an NVIDIA or AMD GPU; in
            `on_train_start`, this run is too short for the given schedule.
    """

    _of_a_run = ("_scheduled", "_extra", "_step_calls", "_recordings", "_trainer", "_ended")

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
        teardown: str = "auto",
        ranks: Sequence[int] | None = (0,),
        captures: bool = False,
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
        if teardown not in ("auto", "on", "off"):
            raise ConfigError(f"teardown={teardown!r} is unknown. Pass 'auto', 'on' or 'off'.")
        super().__init__()
        on = teardown == "on" or (teardown == "auto" and cupti.PROVEN)
        self._detaches = on and not capture_range
        self.eager = compiled == "eager"
        self._new_trace: Callable[..., TorchTrace] = partial(
            CaptureRange if capture_range else new_trace,
            eager=self.eager,
            with_stack=with_stack,
            profile_memory=profile_memory,
            record_shapes=record_shapes,
        )
        self.ranks = None if ranks is None else tuple(ranks)
        self.captures = captures
        self.capture_range, self.quiet_window = capture_range, quiet_window
        self._compressed = trace_format != "json"
        self._clock = clock
        self._scheduled: StepWindows | None = None
        self._extra: ExtraWindow | None = None
        self._step_calls: StepCalls | None = None
        self._recordings: Recordings | None = None
        self._forecast: TraceForecast | None = None
        self._trainer: Any = None
        self._length: int | None = None
        self._thread = 0
        self._wanted = False
        self._ended: Event | None = None
        """Set when a recording has ended, for which another thread may wait."""

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            refuse_device(trainer.strategy.root_device.type, capture_range=self.capture_range)
        super().setup(trainer, pl_module, stage)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the schedule against the length of the run, and begin to count steps."""
        context = self._context
        if context is None:
            return
        check_length(trainer, self.schedule, context, explicit=self.explicit)
        is_scheduled = self.ranks is None or context.rank in self.ranks
        if not is_scheduled and not self.captures:
            return
        self._trainer = trainer
        self._length = fit_length(trainer, "step")
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
            teardown=cupti.TEARDOWN if self._detaches and device == "cuda" else None,
        )
        if is_kind(users_profiler(trainer), "PyTorchProfiler"):
            if is_scheduled:
                self._recordings.note_busy("The Trainer has Lightning's own PyTorchProfiler")
            return
        self._thread, self._ended = get_ident(), Event()
        self._wanted = False
        if is_scheduled:
            cycles = CycleRunner(
                self.schedule,
                new_trace=self._recordings.new,
                on_recorded=self._recordings.save,
                before_stop=self._recordings.before_stop,
                on_stopped=self._stopped,
                now=self._clock,
            )
            by_step = self.schedule.unit == "step"
            self._scheduled = StepWindows(cycles, by_step=by_step, forecast=self._forecast)
        if quiet:
            pause_outside_training(trainer, context.wrappers, self._collect)
        self._step_calls = StepCalls(trainer, self, self._begin_step, self._timing)
        if not is_scheduled:
            self._step_calls.sleep_until(None)

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        scheduled, forecast, step_calls = self._scheduled, self._forecast, self._step_calls
        if scheduled is None or forecast is None:
            return
        forecast.begin_epoch()
        if self.schedule.unit == "epoch":
            cycles = scheduled.cycles
            if cycles.is_due():
                self._give_way_to_schedule()
            cycles.begin_unit()
            soon = forecast.needs_step and cycles.is_due()
            if step_calls is not None and (cycles.active or soon):
                step_calls.wake()

    @override
    @guarded
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for windows in self._windows:
            windows.cycles.end_step()
        if self._scheduled is not None:
            self._scheduled.cycles.end_unit()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close(last=True)

    @property
    def _windows(self) -> tuple[StepWindows, ...]:
        """The windows that run, of which only one can record at a time."""
        return tuple(windows for windows in (self._extra, self._scheduled) if windows is not None)

    @property
    def is_scheduled(self) -> bool:
        """Whether this rank is one of those that the schedule records."""
        return self._scheduled is not None

    def no_window(self) -> str | None:
        """Return why no window can be opened beside the schedule in this run; None if it can."""
        if is_disabled(self):
            return "torch.profiler is off in this run, since it failed or cannot record this device"
        if self.capture_range:
            return "capture_range=True leaves recording to nsys or ncu"
        if self._recordings is None or self._trainer is None:
            return "the training has not begun or has ended"
        if self._step_calls is None:
            return "the Trainer has Lightning's own PyTorchProfiler"
        if self._recordings.teardown is not None:
            return (
                "teardown='on' detaches CUPTI from the GPU behind the schedule's last window, and "
                "a later window might lack its GPU events"
            )
        if self._extra is not None:
            return "another window is being recorded"
        return None

    def first_free(self, step: int, steps: int) -> int:
        """Return the first step, from `step` on, at which `steps` steps can be recorded."""
        if self._scheduled is None or self.schedule.unit != "step":
            return step
        return self.schedule.first_free(step - WARMUP - LEAD, steps + WARMUP + LEAD) + WARMUP + LEAD

    def steps_left(self, step: int) -> int | None:
        """Return how many steps may follow after a step of this fit; None if that is unknown."""
        return None if self._length is None else self._length - step - 1

    def open_window(
        self,
        *,
        capture: int,
        first_step: int,
        steps: int,
        stacks: bool,
        on_end: Callable[[WindowResult], object],
    ) -> None:
        """Record some steps beside those of the schedule. `no_window` must have returned None.

        Call this at the end of a batch. A window of the schedule that comes first ends this one.

        Args:
            capture: The number of the capture that the window is for.
            first_step: The first step to record, at least `LEAD` ahead of the running step.
            steps: How many steps to record.
            stacks: Whether to record Python stacks.
            on_end: Receives what came of it.
        """
        context, calls = self._context, self._step_calls
        assert context is not None
        assert calls is not None
        assert self._recordings is not None
        self._extra = ExtraWindow(
            self._recordings,
            capture=capture,
            now_step=context.step,
            first_step=first_step,
            steps=steps,
            stacks=stacks,
            cycle=self.schedule.cycles + capture,
            on_end=on_end,
            on_stopped=self._stopped,
            now=self._clock,
        )
        self._sleep(calls)

    @guarded
    def _begin_step(self, number: int) -> None:
        if self._trainer is None:
            return
        windows = self._windows
        skipped = [window.skip_to(number) for window in windows]
        # Stopping and exporting take long, so their time is charged to this callback by name.
        action = f"[Callback]{self.state_key}.step_begins"
        works = any(window.works for window in windows)
        with self._trainer.profiler.profile(action) if works else nullcontext():
            for window, count in zip(windows, skipped, strict=True):
                window.end_step(count)
                if window.cycles.active:
                    self._end_for_other_thread(window.cycles)
            if self._scheduled is not None and self._scheduled.is_due:
                self._give_way_to_schedule()
            for window in self._windows:
                window.turn()
            if self._extra is not None and self._extra.is_over:
                self._end_extra()
        for window in self._windows:
            window.cycles.begin_step(number)
        # The recording changes right before the next step begins, in the time of this step.
        if self._timing is not None and any(window.touches_next_step for window in self._windows):
            self._timing.flag_next_step(StepFlag.PROFILED)
        if self._step_calls is not None:
            self._sleep(self._step_calls)

    def _sleep(self, calls: StepCalls) -> None:
        """Let no step be announced before the next at which a window begins, goes on or ends."""
        steps = [step for window in self._windows if (step := window.next_step) is not None]
        calls.sleep_until(min(steps, default=None))

    @guarded
    def end_window(self) -> None:
        """End the window of `open_window` with what it has recorded so far, if it is open."""
        self._end_extra()

    def _give_way_to_schedule(self) -> None:
        if self._extra is not None and self._extra.cycles.active:
            self._end_extra(SCHEDULED)

    def _end_extra(self, why: str = "") -> None:
        extra, self._extra = self._extra, None
        if extra is not None:
            extra.end(why)

    def _end_for_other_thread(self, cycles: CycleRunner) -> None:
        if self._wanted:
            self._give_way()
        elif self._recordings is not None and fits.runs_elsewhere():
            self._recordings.note_other_thread()
            cycles.close(last=False)

    def _stopped(self) -> None:
        if self._recordings is not None:
            self._recordings.stopped()
        if self._ended is not None:
            self._ended.set()

    @guarded
    def _give_way(self) -> None:
        if self._ended is not None and self._thread != get_ident():
            # Only the thread that began the recording can end it, before its next step.
            self._wanted = True
            self._ended.wait(MOST_WAIT_S)
            return
        if self._recordings is not None:
            self._recordings.note_busy(
                "Another torch profiler began during a cycle, which ends here"
            )
        self._close(last=False)

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._close(last=True)

    def _close(self, *, last: bool) -> None:
        self._end_extra()
        if self._scheduled is not None:
            self._scheduled.cycles.close(last=last)

    @guarded
    def _collect(self, on: bool) -> None:
        for windows in self._windows:
            windows.cycles.collect(on)

    @override
    def _release(self) -> None:
        if self._step_calls is not None:
            self._step_calls.remove()
        scheduled, self._scheduled = self._scheduled, None
        extra, self._extra = self._extra, None
        if scheduled is not None:
            scheduled.cycles.drop()
        if extra is not None:
            extra.drop()
        self._step_calls = self._recordings = self._forecast = self._trainer = None
