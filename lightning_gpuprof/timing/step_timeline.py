"""Divides the time of a phase clock into steps and the time outside of steps.

A step lasts from the fetch of its batch to the next fetch, or to the end of the epoch. Every
nanosecond from the start of the clock to `stop` belongs to exactly one step or one outside span.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import WORKER_STARTUP, Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.runtime.context import StepListener
from lightning_gpuprof.timing.phase_clock import ChargedRows, PhaseClock, Region
from lightning_gpuprof.timing.region_paths import CUT, CUT_OPEN, code

SETUP, EPOCH_START, EPOCH_END, TEARDOWN = "setup", "epoch_start", "epoch_end", "teardown"
UNKNOWN_SAMPLES = -1
_UNKNOWN = UNKNOWN_SAMPLES, UNKNOWN_SAMPLES


class Outside(NamedTuple):
    """A span of time outside of steps.

    `where` is that of the record `OutsideSpan`. `flags` are those that a step would have.
    """

    where: str
    cut: ChargedRows
    flags: int = 0


class BatchSequence(NamedTuple):
    """Batches of an epoch that follow each other without a gap.

    `first` is the number of the first batch in the session, from 0, and `batch_idx` its number in
    the epoch.
    """

    first: int
    epoch: int
    batch_idx: int


class StepTimeline:
    """Follows a training or evaluation loop from step to step and from epoch to epoch.

    Args:
        clock: The phase clock.
        warmup: How many first steps are flagged as warm-up.

    Attributes:
        epoch: The current epoch.
        flags: The flags of the running step.
        next_flags: The flags of the step whose batch begins next.
        in_step: Whether a step is running.
        begun: Whether the batch of the running step has begun and not yet ended.
        ran: Whether the batch of the running step has ended.
        due: Whether something must be done when the batch has ended.
        timed: Whether the running step is timed by phase.
        timed_count: How many steps were timed by phase, once not all of them are.
        choose: Set by a `StepChoice` once not all steps are timed by phase. Called when a step
            begins, it returns whether the step is timed.
        on_epoch_end: Set by a `StepChoice`, and called when an epoch ends.
        listeners: Called at the beginning of every step.
        outside: Spans outside of steps that the window writer has not taken yet.
        shapes: The shapes of the first tensors of the batches whose steps have not been taken yet,
            empty where unknown. For a batch that directly follows the last batch of its epoch, the
            caller may append the shape and set `begun` instead of calling `begin_batch`.
    """

    FACTS = ("step", "epoch", "batch_idx", "samples", "numbers", "flags", "start_ns", "end_ns")

    def __init__(self, clock: PhaseClock, *, warmup: int = 0) -> None:
        self.clock = clock
        self.epoch = self.flags = self.next_flags = 0
        self.in_step = self.begun = self.ran = self.due = False
        self.timed, self.timed_count = True, 0
        self.choose: Callable[[], bool] | None = None
        self.on_epoch_end: Callable[[], None] | None = None
        self.listeners: list[StepListener] = []
        self.outside: list[Outside] = []
        self.shapes: list[Sequence[int]] = []
        self._warmup = warmup
        self._where = SETUP
        self._starting_up = False
        self._startup = clock.slot(Phase.DATA_WAIT, WORKER_STARTUP)
        self._taken = 0
        self._sequences = [BatchSequence(0, 0, 0)]
        self._flagged: dict[int, int] = {}

    @property
    def step(self) -> int:
        """Number of the running step, from 0."""
        return self._batches() - (self.ran or self.begun)

    def begin_batch(self, batch_idx: int, shape: Sequence[int]) -> None:
        """Note that the batch of the step begins."""
        if self.ran or not self.in_step:
            self.begin_step()  # the batch's fetch was no action of the profiler
        if self.begun:
            self._drop_batch()
        number = self._batches()
        if self._epoch_and_index(number) != (self.epoch, batch_idx):
            self._sequences.append(BatchSequence(number, self.epoch, batch_idx))
        self.shapes.append(shape)
        self.begun = True

    def flag(self, flag: StepFlag) -> None:
        """Flag the running step."""
        self.flags |= flag

    def flag_last_batch(self, flag: StepFlag) -> int | None:
        """Flag the step of the batch that began last, and return its number; None if none has."""
        if self.ran or self.begun:
            self.flags |= flag
            return self.step
        last = self.step - 1
        if last < 0:
            return None
        self._flagged[last] = self._flagged.get(last, 0) | flag
        return last

    def save_flags(self) -> None:
        """Save the flags of the step that ends, and clear them for the next step."""
        self._flagged[self.step] = self.flags
        self.flags = 0

    def begin_step(self) -> None:
        """Begin a step, unless a step is running whose batch has not ended yet.

        Thus the first fetches of a loader that prefetches belong to the first step, and the fetches
        inside a step with `dataloader_iter` belong to that step.
        """
        if self.in_step and not self.ran:
            return
        self.notify_listeners()
        self.end_startup()
        if self.in_step:
            self._end_step()
        else:
            self._leave_outside()
        self.in_step, self.ran = True, False
        if self.choose is not None:
            self.choose()

    def notify_listeners(self) -> None:
        """Call the listeners right before a step begins."""
        for listener in tuple(self.listeners):  # a copy, since a listener may remove itself
            listener.step_begins()

    def begin_epoch(self) -> None:
        """Begin an epoch's loop over batches, which starts data workers before its first fetch."""
        self.begin_outside(EPOCH_START)
        self.flags |= StepFlag.EPOCH_START
        self.begin_startup()

    def begin_startup(self) -> None:
        """Charge time to the start of data workers, until `end_startup`."""
        self._starting_up = True
        self.clock.swap(self._startup)

    def end_startup(self) -> None:
        """End the start of data workers, if `begin_startup` was called."""
        if self._starting_up:
            self._starting_up = False
            self.clock.swap(0)

    def end_epoch(self, *, unfinished: bool = False) -> None:
        """End an epoch's loop over batches, and with it the last step of the epoch."""
        self.end_startup()
        if self.in_step and self.ran:
            if unfinished:
                self.flags |= StepFlag.UNFINISHED
            self._end_step()
        # A fetch that found no batch, or whose batch was skipped, is not a step.
        if self.begun:
            self._drop_batch()
        self.in_step = self.ran = False
        self._where = EPOCH_END
        if self.on_epoch_end is not None:
            self.on_epoch_end()

    def begin_outside(self, where: str) -> None:
        """Begin another outside span with this name, if no step is running."""
        if not self.in_step and where != self._where:
            self._leave_outside()
            self._where = where

    def stop(self, *, unfinished: bool) -> int:
        """End the running step or outside span, and return the time at which it ended."""
        if self.in_step:
            self.end_epoch(unfinished=unfinished)
        self._leave_outside()
        return self.clock.last_ns

    def take_rows(self) -> tuple[Int64, Int64]:
        """Return the facts (`FACTS`) and the charged times of finished steps, and drop these steps.

        Both arrays have a row per step.
        """
        rows = self.clock.take_rows()
        count = len(rows.end_ns)
        samples, numbers = batch_sizes(self.shapes[:count])
        del self.shapes[:count]
        step = np.arange(self._taken, self._taken + count)
        flags = np.where(step < self._warmup, int(StepFlag.WARMUP), 0)
        for number in [number for number in self._flagged if number < self._taken + count]:
            flags[number - self._taken] |= self._flagged.pop(number)
        self._taken += count
        epoch, batch_idx = self._take_sequences(step)
        facts = np.column_stack(
            [step, epoch, batch_idx, samples, numbers, flags, rows.start_ns, rows.end_ns]
        )
        return facts, rows.charged_ns

    def _take_sequences(self, step: Int64) -> tuple[Int64, Int64]:
        """Return the epochs and batch indices of steps, and drop older sequences."""
        first, epoch, batch_idx = np.array(self._sequences).T
        at = np.searchsorted(first, step, side="right") - 1
        del self._sequences[: int(at[-1]) if len(at) else 0]
        return epoch[at], batch_idx[at] + step - first[at]

    def _epoch_and_index(self, number: int) -> tuple[int, int]:
        """Return the epoch and the index of the last batch, or of the batch after it."""
        begun = (sequence for sequence in self._sequences[::-1] if sequence.first <= number)
        last = next(begun, self._sequences[0])
        return last.epoch, last.batch_idx + number - last.first

    def _batches(self) -> int:
        return self._taken + len(self.shapes)

    def _drop_batch(self) -> None:
        """Drop a batch that began without ending: a step that fetches itself received no batch."""
        self.shapes.pop()
        self.begun = False
        if len(self._sequences) > 1 and self._sequences[-1].first == self._batches():
            self._sequences.pop()

    def _end_step(self) -> None:
        if self.flags:
            self.save_flags()
        self.clock.end_row()

    def _leave_outside(self) -> None:
        flags = self.flags & ~StepFlag.EPOCH_START
        self.outside.append(Outside(self._where, self.clock.cut(), flags))
        self.flags &= StepFlag.EPOCH_START


def batch_sizes(shapes: Sequence[Sequence[int]]) -> tuple[Int64, Int64]:
    """Return the first dimension of each shape, and how many numbers a tensor of the shape holds.

    >>> [sizes.tolist() for sizes in batch_sizes([(8, 3), (8, 3), (), (4,)])]
    [[8, 8, -1, 4], [24, 24, -1, 4]]
    """
    sizes = {shape: (shape[0], prod(shape)) if shape else _UNKNOWN for shape in set(shapes)}
    if len(sizes) == 1:  # as nearly always
        ((samples, numbers),) = sizes.values()
        return np.full(len(shapes), samples), np.full(len(shapes), numbers)
    pairs = np.array([sizes[shape] for shape in shapes], dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


class Fetch(Region):
    """The region of a batch's fetch. A step begins with it if the batch before has ended.

    In a step that is not timed by phase, only the beginning of the step is logged. When this region
    then closes, nothing happens, since its slot was not opened.
    """

    __slots__ = ("_cuts", "_timeline")

    def __init__(self, region: Region, timeline: StepTimeline) -> None:
        super().__init__(region.clock, region.slot)
        self._timeline = timeline
        self._cuts = code(CUT_OPEN, region.slot)

    @override
    def __enter__(self) -> None:
        timeline = self._timeline
        if not timeline.ran:
            timeline.begin_step()
            Region.__enter__(self)
            return
        if timeline.listeners:
            timeline.notify_listeners()
        if timeline.flags:
            timeline.save_flags()
        timeline.ran = False
        cuts = self._cuts if timeline.choose is None or timeline.choose() else CUT
        self._times.append(self._now())
        self._codes.append(cuts)
