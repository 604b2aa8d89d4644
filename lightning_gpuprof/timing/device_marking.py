"""Puts marks on the device at the boundaries of a step's phases, for the length of a session."""

import math
from collections import deque
from statistics import median_low
from typing import Any

import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.timing.device_marks import DeviceMarks
from lightning_gpuprof.timing.device_rows import OUTSIDE, WHOLE
from lightning_gpuprof.timing.phase_clock import Region, Slot
from lightning_gpuprof.timing.regions import AtLoopEvent, EpochLoop, RegionLike, Saving
from lightning_gpuprof.timing.step_timeline import Fetch, StepTimeline

_UNMARKED = (Phase.CALLBACKS, Phase.LOGGING, Phase.GARBAGE_COLLECTION, Phase.OTHER)
"""Callbacks and loggers have many regions and rarely queue work for the device, so that their
device time counts for the phase around them. The same holds for a checkpoint callback until it
saves."""
_NEXT_BEGINS_WITHIN = {
    Phase.DATA_WAIT: (Phase.OTHER,),
    Phase.HOST_TO_DEVICE: (Phase.OTHER,),
    Phase.FORWARD: (Phase.OPTIMIZER_STEP,),
    Phase.ZERO_GRAD: (Phase.OTHER, Phase.OPTIMIZER_STEP),
    Phase.BACKWARD: (Phase.OPTIMIZER_STEP,),
}
"""If a phase ends inside one of these phases, the next phase is about to begin. The few hooks in
between count for the phase that has ended, which saves a mark."""
FOLD_NS = 20_000
"""A region that opens this soon after another region has closed takes over the mark at that
boundary, since the host can have queued two or three kernels at most in between."""
_BEFORE_TRANSFER = Slot(Phase.HOST_TO_DEVICE, "on_before_batch_transfer")
"""The first part of its phase, which as a rule queues nothing for the device."""
_ALWAYS_FOLD_NS = 10**18
_CALIBRATE_EVERY_NS = 1_000_000_000
_RECENT = 100
"""The cost of a mark is the median of this many windows, so that a window in which another process
had the core hardly matters."""
_NUMBERS = {phase: number for number, phase in enumerate(Phase)}
_OPTIMIZER_STEP = _NUMBERS[Phase.OPTIMIZER_STEP]
_GAPS = frozenset(
    (_NUMBERS[phase], _NUMBERS[outer])
    for phase, outer_phases in _NEXT_BEGINS_WITHIN.items()
    for outer in outer_phases
)
"""The phase that ends and the phase around it, by number, where no mark is put."""
_NOTHING_OPEN = (_NUMBERS[Phase.OTHER], WHOLE)


class DeviceMarking:
    """Puts a mark wherever the phase or the step changes, and returns the device's columns.

    If the device's events fail, only the marks are switched off for the run.

    Attributes:
        marks: The marks.
        every: One timed step in this many has marks.
        step: The step that has marks now, or `OUTSIDE`.
        cost_ns_per_step: What the marks cost the host per step.
    """

    def __init__(
        self, marks: DeviceMarks, timeline: StepTimeline, context: RunContext, *, budget: float
    ) -> None:
        self.marks = marks
        self.every = 1
        self.step = OUTSIDE
        self.cost_ns_per_step = 0.0
        self._timeline = timeline
        self._context = context
        self._budget = budget
        self._now = context.now
        self._times = timeline.clock.times
        self._stack: list[tuple[int, int]] = []
        self._current = self._marked = _NOTHING_OPEN
        """The innermost open phase and part, and those that the newest mark began, by number."""
        self._marked_ns = self._fold_ns = 0
        self._steps_marked = self._counted = self._spent_ns = 0
        self._per_mark_ns: deque[float] = deque(maxlen=_RECENT)
        self._calibrated_ns: int | None = None
        self._held: tuple[Int64, Int64] | None = None

    def watch(self, region: Region) -> RegionLike:
        """Return the region with marks where it opens and closes; some regions have none."""
        slot = region.clock.slots[region.slot]
        step_may_change = isinstance(region, (Fetch, AtLoopEvent, EpochLoop))
        if isinstance(region, Saving):
            return _Marked(region, self, Phase.CHECKPOINT)
        unmarked = slot.phase in (*_UNMARKED, Phase.CHECKPOINT)
        if slot == _BEFORE_TRANSFER or (unmarked and not step_may_change):
            return region
        phase = Phase.OTHER if unmarked else slot.phase
        return _Marked(region, self, phase, step_may_change=step_may_change)

    @guarded
    def opens(self, phase_and_part: tuple[int, int], step_may_change: bool) -> None:
        """Note that a region has opened, with its phase and part by number."""
        self._stack.append(self._current)
        self._current = phase_and_part
        if step_may_change and self._change_step():
            return
        if self.step != OUTSIDE and self._current != self._marked:
            self._open()

    @guarded
    def closes(self, step_may_change: bool) -> None:
        """Note that the innermost open region has closed."""
        closed = self._current
        self._current = self._stack.pop() if self._stack else _NOTHING_OPEN
        if step_may_change and self._change_step():
            return
        if self.step != OUTSIDE and self._current != self._marked:
            if (closed[0], self._current[0]) not in _GAPS:
                self._mark(self._current, self._boundary_ns())
                self._fold_ns = FOLD_NS

    @guarded
    def opens_part(self, part: int) -> None:
        """Note that a named part of the open phase has begun."""
        self._stack.append(self._current)
        self._current = (self._current[0], part)
        if self.step != OUTSIDE:
            self._mark(self._current, self._now())

    @guarded
    def closes_part(self, part: int) -> None:
        """Note that a named part has ended. Parts of a backward pass need not be nested."""
        if self._current[1] == part:
            self._current = self._stack.pop() if self._stack else _NOTHING_OPEN
            if self.step != OUTSIDE:
                self._mark(self._current, self._now())
            return
        for index in range(len(self._stack) - 1, -1, -1):
            if self._stack[index][1] == part:
                del self._stack[index]
                return

    def _open(self) -> None:
        phase, _ = current = self._current
        at_ns = self._boundary_ns()
        if at_ns - self._marked_ns < self._fold_ns:
            self.marks.relabel(phase)
            self._marked = current
            self._fold_ns = 0
        else:
            self._mark(current, at_ns)
        if phase == _OPTIMIZER_STEP:  # its closure trains the batch before its own work begins
            self._fold_ns = _ALWAYS_FOLD_NS

    def _change_step(self) -> bool:
        """Follow the timeline to another step, and return whether the step has changed."""
        timeline = self._timeline
        step = timeline.step if timeline.in_step else OUTSIDE
        if not timeline.timed or (timeline.timed_count if timeline.choose else step) % self.every:
            step = OUTSIDE
        if step == self.step:
            return False
        # Only the loop itself is open here, so drop the regions that an exception has left open.
        del self._stack[:-1]
        self.step = step
        self._mark(self._current, self._boundary_ns())
        if step != OUTSIDE:
            self._steps_marked += 1
        else:  # the regions that are open now will close without a call of `closes`
            self._stack.clear()
            self._current = _NOTHING_OPEN
        return True

    def _boundary_ns(self) -> int:
        """Return when the region opened or closed, which is the last time in the clock's log."""
        times = self._times
        return times[-1] if times else self._now()

    def _mark(self, phase_and_part: tuple[int, int], at_ns: int) -> None:
        self._marked_ns, self._marked, self._fold_ns = at_ns, phase_and_part, 0
        self.marks.mark(self.step, phase_and_part[0], at_ns, phase_and_part[1])

    @guarded
    def calibrate(self) -> None:
        """Relate the device's clock to the host's, if the device is idle now."""
        now = self._now()
        if self._calibrated_ns is None or now - self._calibrated_ns >= _CALIBRATE_EVERY_NS:
            if self.marks.calibrate():
                self._calibrated_ns = now

    def ready(self, facts: Int64, charged: Int64, *, final: bool) -> tuple[Int64, Int64]:
        """Return the rows of the steps that can be written now.

        Steps whose marks the device has not passed yet are held back, for one window at most.

        Args:
            facts: The facts of the steps of a window, a row per step.
            charged: The times charged in these steps, a row per step.
            final: Whether to return all steps.
        """
        pending = self._harvest()
        waited = 0
        if self._held is not None:
            held_facts, held_charged = self._held
            waited = len(held_facts)
            missing = charged.shape[1] - held_charged.shape[1]
            held_charged = np.pad(held_charged, ((0, 0), (0, missing)))
            facts = np.vstack((held_facts, facts))
            charged = np.vstack((held_charged, charged))
        self._held = None
        if final or pending is None:
            return facts, charged
        # Steps that have waited for a whole window are written now, with or without their marks.
        done = max(waited, int(np.searchsorted(facts[:, 0], pending)))
        if done < len(facts):
            self._held = facts[done:], charged[done:]
        return facts[:done], charged[:done]

    @guarded
    def columns(self, steps: Int64, dur_ns: int, *, spacing: int = 1) -> dict[str, Int64]:
        """Return the device's columns for some steps.

        Args:
            steps: The numbers of the steps.
            dur_ns: The duration of these steps together.
            spacing: One step in this many is timed by phase.
        """
        columns = self.marks.take(steps)
        self._keep_budget(dur_ns / len(steps), spacing)
        return columns

    @guarded
    def _harvest(self) -> int | None:
        """Read the marks that the device has passed; return the first step that still lacks one."""
        begin = self._now()
        self.marks.harvest()
        self.marks.own_ns += self._now() - begin
        pending = self.marks.pending_step
        self.calibrate()
        return pending

    def _keep_budget(self, step_ns: float, spacing: int) -> None:
        """Choose how many steps have marks, so that the marks cost no more than their budget."""
        marks = self.marks
        if marks.marked > self._counted:
            spent_ns, count = marks.own_ns - self._spent_ns, marks.marked - self._counted
            self._per_mark_ns.append(spent_ns / count)
            self._spent_ns, self._counted = marks.own_ns, marks.marked
        if marks.queueing_ns is None or not self._steps_marked or not self._per_mark_ns:
            return
        per_mark = marks.queueing_ns + median_low(self._per_mark_ns)
        per_step = per_mark * marks.marked / self._steps_marked
        wanted = per_step / (self._budget * step_ns) / spacing if step_ns else 1
        # `every` was rounded up from more than `every - 1`: less than half of that is clearly less.
        if wanted > self.every or wanted < (self.every - 1) / 2:
            self.every = every = max(1, math.ceil(wanted))
            message = (
                f"Marks on the device cost the host {per_step / 1000:.0f} µs of a step of "
                f"{step_ns / 1000:.0f} µs, and overhead_budget is {self._budget:g}: every "
                f"{every * spacing}. step is marked from now on."
            )
            self._context.note(
                "device_marks_every", every * spacing, message if every * spacing > 1 else ""
            )
        self.cost_ns_per_step = per_step / (self.every * spacing)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


class _Marked:
    """A region that notifies the marking when it opens and closes.

    It does so only in steps with marks, and where the step may change.
    """

    __slots__ = ("_closes", "_marking", "_opens", "_phase_and_part", "_step_may_change", "region")

    def __init__(
        self,
        region: RegionLike,
        marking: DeviceMarking,
        phase: Phase,
        *,
        step_may_change: bool = False,
    ) -> None:
        self.region = region
        self._phase_and_part = (_NUMBERS[phase], WHOLE)
        self._step_may_change = step_may_change
        self._marking = marking
        self._opens, self._closes = marking.opens, marking.closes

    def __enter__(self) -> None:
        self.region.__enter__()
        if self._step_may_change or self._marking.step != OUTSIDE:
            self._opens(self._phase_and_part, self._step_may_change)

    def __exit__(self, *raised: Any) -> None:
        self.region.__exit__(*raised)
        if self._step_may_change or self._marking.step != OUTSIDE:
            self._closes(self._step_may_change)
