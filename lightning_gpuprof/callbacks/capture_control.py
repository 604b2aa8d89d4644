"""Captures a running training: when somebody asks for it, and when its steps become slower."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.line_sampler import LineSampler
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.capture.request_watch import RequestWatch
from lightning_gpuprof.capture.step_windows import LEAD, WARMUP, WindowResult
from lightning_gpuprof.config import checked_captures
from lightning_gpuprof.records.capture_files import (
    CaptureAnswer,
    CaptureRequest,
    CaptureState,
    answer_path,
    plan_path,
    request_path,
    write_file,
)
from lightning_gpuprof.records.facts import Capture, CaptureReason, SlowDown
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import dispatcher_in
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.runtime.timed_calls import TimedCalls

STAT_NS = 5_000_000_000
"""How often the folder is looked at for a request."""
LOOK_NS = 500_000_000
"""How often a capture that runs is looked at."""
AGREE_NS = 2 * STAT_NS
"""Time in which the ranks see rank 0's plan, each of which looks once in `STAT_NS`."""
STEPS, LINES_S = 3, 20.0
"""What is recorded of a slow-down: as many steps as in the default window, and the lines of as many
seconds as at the beginning of training, for a comparison."""
PAUSE = 2
"""After a slow-down has been captured, the next is captured once the run has lasted this many times
as long."""
ENDED = "the training ended before the capture was complete"
REPLACED = "another request came before the capture was complete"


@dataclass
class _Running:
    """A capture that is being made."""

    record: Capture
    lines_s: float
    request: CaptureRequest | None = None
    is_sampling: bool = False


class CaptureControl(RecordingCallback):
    """Opens a profiler window and samples lines again, on request or when steps become slower.

    A request is a file in the run's folder, which `lightning-gpuprof capture` writes. Rank 0 looks
    for it, and answers with a file. If other ranks are asked, rank 0 plans the first step so far
    ahead that all of them know it in time, and writes that to another file, which they look for. No
    signal is sent, no port is opened, and no collective is made.

    A slow-down is captured on its own, `max_captures` times in a session at most. After each time
    the next one waits until the run has lasted twice as long. The window is recorded on the ranks
    that the schedule of the profiler records; lines are sampled on every rank.

    Costs: 3 us in 200 batches, and 10 us every five seconds. A capture costs what a profiler window
        and the sampling of lines cost.
    Touches: reads `plugins/gpuprof/capture-request.json` in the run's folder, or
        `capture-plan.json` on other ranks than rank 0: one `stat` every five seconds. Rank 0
        removes the request and writes the plan, if other ranks are asked; every rank that was
        asked writes `rank<r>-capture-answer.json`.
    When: training and evaluations; a capture where one is asked for or a slow-down is noticed.
    Switch: max_captures=0

    Args:
        windows: Opens the profiler windows; None to record none.
        lines: Samples the lines; None to sample none.
        max_captures: How many slow-downs are captured in a session at most.
        stat: Returns the status of a path; tests pass a fake.

    Raises:
        ConfigError: `max_captures` is negative.
    """

    _of_a_run = ("_running", "_watch", "_looks")

    def __init__(
        self,
        windows: ProfilerSchedule | None,
        lines: LineSampler | None,
        *,
        max_captures: int = 3,
        stat: Callable[[str], os.stat_result] = os.stat,
    ) -> None:
        super().__init__()
        self.max_captures = checked_captures(max_captures)
        self._windows, self._lines = windows, lines
        self._stat = stat
        self._looks: TimedCalls | None = None
        self._watch: RequestWatch | None = None
        self._running: _Running | None = None
        self._begin_run()

    def _begin_run(self) -> None:
        self._count = self._slow_downs = 0
        self._stat_due_ns = self._pause_until_ns = 0
        self._ends = False
        self._slow_down: SlowDown | None = None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        context = self._context
        if context is None:
            return
        self._release()
        run, stat = context.run_dir, self._stat
        self._watch = (
            RequestWatch(request_path(run), stat=stat)
            if context.rank == 0
            else RequestWatch(plan_path(run), ignore_existing=True, stat=stat)
        )
        self._begin_run()
        self._stat_due_ns = context.now() + STAT_NS
        calls = dispatcher_in(trainer, self).periodic
        self._looks = TimedCalls(calls, self._look, context.now, LOOK_NS)

    @guarded
    def _look(self) -> None:
        """Look for a request if it is time, and go on with the capture that runs."""
        context, watch, running = self._context, self._watch, self._running
        if context is None or watch is None:
            return
        if running is not None and running.is_sampling and not self._samples_lines:
            self._finish()
        if context.now() >= self._stat_due_ns:
            self._stat_due_ns = context.now() + STAT_NS
            request = watch.new()
            if request is not None:
                self._receive(request)
        self._capture_slow_down()

    def _receive(self, request: CaptureRequest) -> None:
        """Act on a request, or on the plan of rank 0."""
        context = self._context
        assert context is not None
        if context.rank:
            if context.rank in request.ranks:
                self._begin_request(request)
            return
        if request.started_unix_ns != context.started_unix_ns:
            return  # it was for an earlier session in this folder
        with suppress(OSError):
            os.unlink(request_path(context.run_dir))
        if any(request.ranks):
            first_step = self._first_step(request.steps, apart_ns=AGREE_NS)
            request = replace(request, first_step=first_step)
            write_file(plan_path(context.run_dir), request)
        if 0 in request.ranks:
            self._begin_request(request)

    def _first_step(self, steps: int, *, apart_ns: int = 0) -> int:
        """Return the first step to record, so much time ahead at least."""
        assert self._context is not None
        assert self._looks is not None
        ahead = math.ceil(apart_ns / self._looks.least_step_ns)
        step = self._context.step + LEAD + WARMUP + ahead
        return step if self._windows is None else self._windows.first_free(step, steps)

    def _begin_request(self, request: CaptureRequest) -> None:
        if self._running is not None:
            self._end_capture(REPLACED)
            self._ends = False
        self._begin(
            CaptureReason.REQUEST,
            steps=request.steps,
            lines_s=request.lines_s,
            stacks=request.stacks,
            first_step=request.first_step,
            request=request,
        )

    @guarded
    def on_slow_down(self, slow_down: SlowDown) -> None:
        """Capture a slow-down that was noticed, now or as soon as the next capture is due."""
        if slow_down.lasts:
            self._slow_down = slow_down
        elif self._slow_down is not None and self._slow_down.since_step == slow_down.since_step:
            self._slow_down = None
        self._capture_slow_down()

    def _capture_slow_down(self) -> None:
        context, slow_down = self._context, self._slow_down
        if context is None or slow_down is None or self._looks is None or self._running is not None:
            return
        if self._slow_downs >= self.max_captures or context.clock() < self._pause_until_ns:
            return
        self._slow_down = None
        self._slow_downs += 1
        self._begin(
            CaptureReason.SLOW_DOWN,
            steps=STEPS,
            lines_s=LINES_S,
            onset_step=slow_down.since_step,
            first_step=self._step_before_spike(slow_down),
        )

    def _step_before_spike(self, slow_down: SlowDown) -> int | None:
        """Return the step before the next spike that can be recorded; None without spikes."""
        assert self._context is not None
        if not slow_down.every_steps:
            return None
        since, every = slow_down.since_step, slow_down.every_steps
        least = self._context.step + LEAD + WARMUP + 1
        return since + every * max(0, -((since - least) // every)) - 1

    def _begin(
        self,
        why: CaptureReason,
        *,
        steps: int,
        lines_s: float,
        stacks: bool = False,
        first_step: int | None = None,
        onset_step: int | None = None,
        request: CaptureRequest | None = None,
    ) -> None:
        context = self._context
        assert context is not None
        record = Capture(self._count, why, context.step, onset_step)
        self._count += 1
        self._running = running = _Running(record, lines_s, request)
        first = self._first_step(steps) if first_step is None else first_step
        problem = self._no_window(why, first, steps)
        if problem is not None:
            self._window_ended(WindowResult(problem=problem))
            return
        assert self._windows is not None
        self._windows.open_window(
            capture=record.number,
            first_step=first,
            steps=steps,
            stacks=stacks,
            on_end=self._window_ended,
        )
        running.record = replace(record, first_step=first, last_step=first + steps - 1)
        self._answer(running, CaptureState.WAITING)

    def _no_window(self, why: CaptureReason, first_step: int, steps: int) -> str | None:
        """Return why these steps cannot be recorded; None if they can."""
        windows, context = self._windows, self._context
        assert context is not None
        if windows is None:
            return "trace=False switches torch.profiler off"
        if why is CaptureReason.SLOW_DOWN and not windows.is_scheduled:
            return "torch.profiler records a slow-down only on the ranks of its schedule"
        if (problem := windows.no_window()) is not None:
            return problem
        if first_step < context.step + LEAD:
            return (
                f"the plan for step {first_step} was seen only in step {context.step}, too late to "
                "record the same steps as the other ranks"
            )
        left = windows.steps_left(first_step - 1)
        if left is not None and left < steps:
            return f"the training ends before step {first_step + steps - 1}"
        return None

    @guarded
    def _window_ended(self, result: WindowResult) -> None:
        """Go on with the lines, which would show the profiler's own work during the window."""
        running, context, lines = self._running, self._context, self._lines
        if running is None or context is None:
            return
        running.record = replace(
            running.record,
            first_step=result.first_step,
            last_step=result.last_step,
            trace_file=result.trace_file,
            problem=result.problem,
        )
        if self._ends or not running.lines_s:
            self._finish()
            return
        problem = "lines=False switches it off" if lines is None else lines.cannot_sample()
        if lines is None or problem is not None:
            self._finish(f"no lines were sampled: {problem}")
            return
        lines.sample_again(running.record.number, running.lines_s)
        running.is_sampling = True
        context.write(running.record)
        self._answer(running, CaptureState.SAMPLING)

    @property
    def _samples_lines(self) -> bool:
        return self._lines is not None and self._lines.samples_again

    def _finish(self, message: str = "") -> None:
        """Write the records of the capture that runs, and answer the request."""
        running, self._running = self._running, None
        context = self._context
        if running is None or context is None:
            return
        captured = self._lines.take_again() if running.is_sampling and self._lines else None
        if captured is not None:
            context.write(captured)
            running.record = replace(
                running.record,
                samples=0 if captured.host is None else captured.host.whole,
                worker_samples=0 if captured.workers is None else captured.workers.whole,
            )
        record = running.record
        context.write(record)
        context.flush()
        if record.why is CaptureReason.SLOW_DOWN:
            self._pause_until_ns = PAUSE * context.clock()
        has_any = record.trace_file or record.samples or record.worker_samples
        self._answer(running, CaptureState.DONE if has_any else CaptureState.REFUSED, message)

    def _answer(self, running: _Running, state: CaptureState, message: str = "") -> None:
        """Tell the command that asked how far this rank is."""
        request, record, context = running.request, running.record, self._context
        if request is None or context is None:
            return
        answer = CaptureAnswer(
            id=request.id,
            rank=context.rank,
            state=state,
            step=context.step,
            first_step=record.first_step,
            last_step=record.last_step,
            trace_file=record.trace_file,
            samples=record.samples,
            worker_samples=record.worker_samples,
            message="; ".join(text for text in (record.problem, message) if text),
        )
        with suppress(OSError):  # the command says that there was no answer
            write_file(answer_path(context.run_dir, context.rank), answer)

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_capture()
        self._release()

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._end_capture()

    def _end_capture(self, why: str = ENDED) -> None:
        """Save what the running capture has recorded, and answer why it is not complete."""
        self._ends = True
        if self._running is not None and self._windows is not None:
            self._windows.end_window()
        self._finish(why)

    @override
    def _release(self) -> None:
        looks, self._looks = self._looks, None
        if looks is not None:
            looks.stop()
        self._running = self._watch = None
