"""Writes the windows of steps, and keeps this package's overhead within its budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.adapters.lightning import logging_step
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.runtime.console import profile_line, say
from lightning_gpuprof.runtime.context import RunContext, WindowListener
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.runtime.safe_logger import SafeLogger
from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.overhead import Overhead, StepChoice
from lightning_gpuprof.timing.step_timeline import StepTimeline
from lightning_gpuprof.timing.windows import SlotTable, Window, outside_span, untimed_span

_SCALARS_EVERY_NS = 1_000_000_000
"""A logger takes about half a millisecond for a dozen scalars, which at this interval is 0.05 % of
the time."""
_SCALARS_TIMES = 200
"""A slow logger is called again only after this many times its own time, so that it takes at most
0.5 % of the time."""
_FIRST_LINE_NS, _LINE_NS = 8_000_000_000, 10_000_000_000
"""If steps are slow, a console line appears after this time, before the window is full. The first
line thus appears within ten seconds, even if steps become slower."""
_EARLY = "shown after 10 s, before {window} steps"
_MOST_WAITING = 10
"""At most this many full windows wait (see `RunContext.windows_left`), because writing several
costs little more than writing one (ADR 42). The first windows, which show the overhead, do not
wait."""


@dataclass(frozen=True)
class TimerSettings:
    """The settings of a `PhaseTimer`, which documents them."""

    window: int
    warmup: int
    console: bool
    scalars: bool
    overhead_budget: float
    nvtx: bool = False


class WindowWriter:
    """Takes finished steps from the timeline and writes them as windows."""

    def __init__(
        self,
        trainer: Any,
        context: RunContext,
        timeline: StepTimeline,
        settings: TimerSettings,
        *,
        choice: StepChoice,
        device: DeviceMarking | None,
        loggers: Sequence[SafeLogger],
        own_names: Sequence[str],
    ) -> None:
        self._choice, self._device = choice, device
        self.overhead = Overhead(settings.overhead_budget)
        self._trainer = trainer
        self._context = context
        self._timeline = timeline
        self._window = settings.window
        self._console = settings.console and context.rank == 0
        logs = context.rank == 0 and not (trainer.fast_dev_run or trainer.barebones)
        self._scalars = settings.scalars and logs and context.stage == "fit"
        self._loggers = loggers
        self._next_scalars_ns = 0
        self._own_names = own_names
        self._slot_table = SlotTable(())
        self._most_waiting = 1
        self._steps, self._until_next_call = 0, 1  # `_steps`: since the last line
        self._line_ns, self._line_due_ns = context.started_ns, _FIRST_LINE_NS
        self._written_ns = context.started_ns
        self._long_steps: list[int] = []
        self._long_ns: list[int] = []
        self.listeners: list[WindowListener] = []
        """The parts that receive the steps of every window."""

    def begin(self) -> None:
        """Count the time until the first console line from now on, since training begins."""
        self._line_ns = self._context.now()

    def fill(self) -> int:
        """Write the full windows, unless they can wait.

        If a console line is due by its time, the steps so far are written, even if they are less
        than a window. Returns the number of steps until the next call.
        """
        self._steps += self._until_next_call
        begun_ns, window_steps = self._context.now(), self._window * self._spacing
        waited_ns = max(1, begun_ns - self._line_ns)
        # Before the first line, the batch that ends now counts too.
        batches = self._steps + (self._line_due_ns == _FIRST_LINE_NS)
        if full := self._steps // window_steps:
            left = self._context.windows_left(self._written_ns, full)
            more = window_steps * min(self._most_waiting - full, left)
        else:  # by the pace so far, which the first steps do not show well
            until_line = (self._line_due_ns - waited_ns) * batches // waited_ns
            more = min(until_line, self._steps, window_steps - self._steps)
        if more <= 0:
            self._write(begun_ns, early=not full)
            more = min(window_steps, max(1, _LINE_NS * batches // waited_ns))
            self._steps = 0
        elif full and self._device is not None:  # its clock drifts while nothing is written too
            self._device.calibrate()
            more = window_steps
        self._until_next_call = more
        return more

    def _write(self, begun_ns: int, *, early: bool) -> None:
        with interrupts_wait():
            window = self.take()
        self.show(window, early=early)
        if window is not None and self.listeners:
            rows = window.rows()
            for listener in tuple(self.listeners):
                listener.window_ends(rows)
        self._keep_to_budget()
        self._context.flush()
        self._written_ns = self._line_ns = self._context.now()
        self._line_due_ns = _LINE_NS
        self.overhead.add_write(self._written_ns - begun_ns)

    def show(self, window: Window | None, *, final: bool = False, early: bool = False) -> None:
        """Show a window to loggers, and its last steps on the console.

        `early` says that the console line is due before there were as many steps as wanted.
        """
        if window is None:
            return
        if self._scalars:
            self._log_scalars(window, final=final)
        # If the window holds only the step that an error has ended, the error says enough.
        if self._console and not (window.flags & int(StepFlag.UNFINISHED)).all():
            count = min(self._window, window.count)
            more = [*window.progress(count)]
            if early:
                more.append(_EARLY.format(window=self._window))
            say(profile_line(*window.last(count), count, more))

    def own_ns_per_step(self) -> int | None:
        """Return this package's overhead per step, or None if it is unknown."""
        self.overhead.boundaries = self._timeline.clock.boundaries
        own_ns = self.overhead.ns_per_step()
        if own_ns is None or self._device is None:
            return own_ns
        return own_ns + round(self._device.cost_ns_per_step)

    def timing_ns_per_step(self) -> int | None:
        """Return the overhead in other phases than `callbacks`; None if it is unknown."""
        timing_ns = self.overhead.timing_ns_per_step()
        if timing_ns is None or self._device is None:
            return timing_ns
        return timing_ns + round(self._device.cost_ns_per_step)

    def take(self, *, final: bool = False) -> Window | None:
        """Hand all finished steps to the context, and return the window of those timed by phase.

        Steps whose device marks are late are held back, unless this is the final call. Ctrl-C
        during this call would lose steps, so the caller delays it.
        """
        timeline, context, slots = self._timeline, self._context, self._timeline.clock.slots
        for outside in timeline.outside:
            origin_ns = context.started_ns
            context.write(outside_span(outside, slots, origin_ns=origin_ns, own=self._own_names))
        timeline.outside.clear()
        facts, charged = self._timed_rows()
        device = self._device
        if device is not None:
            facts, charged = device.ready(facts, charged, final=final)
        if self._slot_table.width != len(slots):
            self._slot_table = SlotTable(slots, self._own_names)
        if not len(facts):
            return None
        window = Window(facts, charged, self._slot_table, origin_ns=context.started_ns)
        if device is not None:
            columns = device.columns(window.steps, window.total_ns, spacing=self._spacing)
            window.device = columns or {}
        window.long_steps, window.long_ns = self._long_steps, self._long_ns
        self._long_steps, self._long_ns = [], []
        context.write(window.record())
        self.overhead.add(window)
        return window

    @property
    def _spacing(self) -> int:
        return self._choice.every

    def _timed_rows(self) -> tuple[Int64, Int64]:
        """Take the finished steps from the timeline, and write those that were not timed by phase.

        Returns the facts and charged times of the others.
        """
        facts, charged = self._timeline.take_rows()
        if not len(facts):
            return facts, charged
        timed = self._choice.is_timed(facts[:, 0])
        if not timed.all():
            slots, origin_ns = self._timeline.clock.slots, self._context.started_ns
            untimed = facts[~timed], charged[~timed]
            span = untimed_span(
                *untimed,
                slots,
                origin_ns=origin_ns,
                own=self._own_names,
                written_step=int(facts[0, 0]),
            )
            self._context.write(span)
            self._long_steps, self._long_ns = span.long_steps, span.long_ns
            self.overhead.add_untimed(int((~timed).sum()))
        return facts[timed], charged[timed]

    def _log_scalars(self, window: Window, *, final: bool) -> None:
        begun_ns = self._context.now()
        if begun_ns < self._next_scalars_ns:
            return
        scalars = {f"gpuprof/{name}": value for name, value in window.median_ms().items()}
        # This is the step under which Lightning itself would log now, so that no step is added.
        step = max(0, logging_step(self._trainer) - final)
        for logger in self._loggers:
            logger.log(dict(scalars), step)
        took_ns = self._context.now() - begun_ns
        self._next_scalars_ns = begun_ns + max(_SCALARS_EVERY_NS, _SCALARS_TIMES * took_ns)

    def _keep_to_budget(self) -> None:
        self.overhead.boundaries = self._timeline.clock.boundaries
        every, choice = self.overhead.spacing(), self._choice
        if every is not None:
            self._most_waiting = _MOST_WAITING
        if every is None or choice.every // 2 < every <= choice.every:
            return
        is_first_change = choice.every == 1
        choice.time_one_in(every)
        self._scalars = False
        message = self.overhead.explain(every)
        self._context.note("overhead-budget", every, message)
        if self._console and is_first_change:
            say(f"[PROFILE] {message}")
