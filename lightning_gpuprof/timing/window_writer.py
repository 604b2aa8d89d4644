"""Writes a run's windows of steps, and sees to it that all of it stays within its budget."""

from collections.abc import Sequence
from typing import Any

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.schema import Note, StepFlag
from lightning_gpuprof.session.console import profile_line, say
from lightning_gpuprof.session.interrupts import interrupts_wait
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.session.safe_logger import SafeLogger
from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.overhead import OwnCost
from lightning_gpuprof.timing.step_choice import StepChoice
from lightning_gpuprof.timing.step_timeline import StepTimeline
from lightning_gpuprof.timing.windows import (
    Layout,
    Window,
    outside_span,
    passed_over_span,
)

_SCALARS_EVERY_NS = 1_000_000_000
"""A dozen scalars take a logger about half a millisecond: at this pace 0.05 % of the time."""
_SCALARS_TIMES = 200
"""A logger that is slower than that is called again after this many times what it took, so that
it has the budget's share (0.5 %) at most: one that writes all its history anew may take 100 ms."""
_MOST_WAITING = 10
"""Full windows wait (`RunOutput.windows_left`), at most this many: a write costs a training loop a
millisecond, since none of it is in the processor's caches, and several windows at a time cost
little more than one. The first ones, by which it is judged what a step costs, do not wait."""


class WindowWriting:
    """Takes finished steps from the timeline and writes them, those of full windows together.

    Args:
        trainer: Its loggers get scalars.
        output: Takes the records.
        timeline: Has the steps.
        window: Steps after which there may be a record; each holds all since the last.
        console: Whether to show a line per write.
        scalars: Whether loggers get the windows' medians.
        overhead_budget: The share of a step that its timing may cost.
        own_names: Names of this package's callbacks.

    Attributes:
        choice: Which steps are marked; None where all are.
        device: The marks on the device, where there are any.
        cost: What all of it takes.
    """

    def __init__(
        self,
        trainer: Trainer,
        output: RunOutput,
        timeline: StepTimeline,
        *,
        window: int,
        console: bool,
        scalars: bool,
        overhead_budget: float,
        own_names: Sequence[str],
    ) -> None:
        self.choice: StepChoice | None = None
        self.device: DeviceMarking | None = None
        self.cost = OwnCost(overhead_budget)
        self._trainer: Any = trainer
        self._output = output
        self._timeline = timeline
        self._window = window
        self._console = console
        self._scalars = scalars
        self._loggers = [SafeLogger(logger, output) for logger in self._trainer.loggers]
        self._next_scalars_ns = 0
        self._own_names = own_names
        self._layout = Layout(())
        self._most_waiting = 1
        self._full_windows, self._coming = 0, 1
        self._written_ns = output.started_ns

    def fill(self) -> int:
        """Write full windows, unless they can wait. Returns the steps until it is asked again."""
        self._full_windows += self._coming
        begun = self._output.now()
        most = self._most_waiting - self._full_windows
        more = min(most, self._output.windows_left(self._written_ns, self._full_windows))
        if more <= 0:
            with interrupts_wait():
                window = self.take()
            self.tell(window)
            self._keep_to_budget()
            self._output.flush()
            self._written_ns = self._output.now()
            self.cost.wrote(self._written_ns - begun, in_marked=self._timeline.marked)
            more = 1
        elif self.device is not None:  # its clock drifts, whether something is written or not
            self.device.calibrate()
            more = 1
        self._coming = more
        return more * self._window * (1 if self.choice is None else self.choice.every)

    def tell(self, window: Window | None, *, final: bool = False) -> None:
        """Show what was taken to loggers and on the console."""
        if window is None:
            return
        if self._scalars:
            self._log_scalars(window, final=final)
        # Of a step that an error tore, by itself, the error is all there is to say.
        if self._console and not (window.flags & int(StepFlag.UNFINISHED)).all():
            say(profile_line(window.phase_total_ns, window.total_ns, window.count))

    def own_ns_per_step(self) -> int | None:
        """Return what this package takes of each step, where that is known."""
        self.cost.saw(self._timeline.clock.boundaries)
        own_ns = self.cost.ns_per_step()
        if own_ns is None or self.device is None:
            return own_ns
        return own_ns + round(self.device.cost_ns_per_step)

    def take(self, *, final: bool = False) -> Window | None:
        """Hand the windows that are full to the output, or at the end all that is left.

        Amid this an interrupt would lose steps. Returns those that have phases.
        """
        timeline, output, slots = self._timeline, self._output, self._timeline.clock.slots
        self._full_windows = 0
        for outside in timeline.outside:
            output.write(outside_span(outside, slots, origin_ns=output.started_ns))
        timeline.outside.clear()
        facts, charged = self._marked_rows()
        device = self.device
        if device is not None:
            facts, charged = device.ready(facts, charged, final=final)
        if self._layout.width != len(slots):
            self._layout = Layout(slots, self._own_names)
        if not len(facts):
            return None
        window = Window(facts, charged, self._layout, origin_ns=output.started_ns)
        spacing = 1 if self.choice is None else self.choice.every
        more = (
            {} if device is None else device.columns(window.steps, window.total_ns, spacing=spacing)
        )
        output.write(window.record(more))
        self.cost.add(window)
        return window

    def _marked_rows(self) -> tuple[Int64, Int64]:
        """Take the finished steps' rows; what was not marked of them is written at once."""
        facts, charged = self._timeline.take_rows()
        if self.choice is None or not len(facts):
            return facts, charged
        marked = self.choice.is_marked(facts[:, 0])
        if not marked.all():
            slots, origin_ns = self._timeline.clock.slots, self._output.started_ns
            rest = passed_over_span(facts[~marked], charged[~marked], slots, origin_ns=origin_ns)
            self._output.write(rest)
            self.cost.passed(int((~marked).sum()))
        return facts[marked], charged[marked]

    def _log_scalars(self, window: Window, *, final: bool) -> None:
        trainer = self._trainer
        begun = self._output.now()
        if begun < self._next_scalars_ns or trainer.fast_dev_run or trainer.barebones:
            return
        scalars = {f"gpuprof/{name}": value for name, value in window.median_ms().items()}
        # The step under which Lightning itself would log now: the user's numbering stays whole.
        step = max(0, trainer.fit_loop.epoch_loop._batches_that_stepped - final)
        for logger in self._loggers:
            logger.log(dict(scalars), step)
        took_ns = self._output.now() - begun
        self._next_scalars_ns = begun + max(_SCALARS_EVERY_NS, _SCALARS_TIMES * took_ns)

    def _keep_to_budget(self) -> None:
        self.cost.saw(self._timeline.clock.boundaries)
        every, choice = self.cost.spacing(), self.choice
        if every is not None:
            self._most_waiting = _MOST_WAITING
        if every is None or choice is None or choice.every // 2 < every <= choice.every:
            return
        first = choice.every == 1
        choice.spread(every)
        self._scalars = False
        message = self.cost.explain(every)
        step = self._timeline.step
        self._output.write(Note(step=step, name="overhead-budget", value=every, message=message))
        if self._console and first:
            say(f"[PROFILE] {message}")
