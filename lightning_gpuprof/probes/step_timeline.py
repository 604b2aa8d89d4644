"""Cuts a phase clock's time into steps, and into what lies outside them.

A step runs from the fetch of its batch to the fetch of the next, or to the end of the epoch.
Every nanosecond from `start` to `stop` is in exactly one step or one outside span.
"""

from array import array
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.probes.phase_clock import LOG_LIMIT, Cut, Int64, PhaseClock
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag

SETUP, EPOCH_START, EPOCH_END, TEARDOWN = "setup", "epoch_start", "epoch_end", "teardown"
WORKER_STARTUP = "worker_startup"
UNKNOWN_SAMPLES = -1


class Outside(NamedTuple):
    """Time outside steps; `where` as in the record of that name."""

    where: str
    cut: Cut


class StepRows:
    """Finished steps: one row of facts each, and one of charged times that the clock keeps."""

    FACTS = ("step", "epoch", "batch_idx", "samples", "flags", "start_ns", "end_ns")

    def __init__(self, clock: PhaseClock) -> None:
        self.count = 0
        self._clock = clock
        self._facts: array[int] = array("q")

    def append(self, facts: tuple[int, ...]) -> None:
        """End a row at this moment; its start and end will complete the facts.

        For every step: what it leaves behind are plain numbers, nothing for the garbage
        collector to go through later.
        """
        self._facts.extend(facts)
        self.count += 1
        self._clock.mark()

    def take(self) -> tuple[Int64, Int64]:
        """Return the facts and the charged times of all rows, and forget them.

        Returns:
            int64 arrays of shapes (rows, facts) and (rows, slots).
        """
        rows = self._clock.take_rows()
        # An interrupt inside `append` can leave facts without a row.
        told = np.array(self._facts).reshape(-1, len(self.FACTS) - 2)[: len(rows.end_ns)]
        facts = np.column_stack([told, rows.start_ns, rows.end_ns])
        del self._facts[:]
        self.count = 0
        return facts, rows.charged_ns


class StepTimeline:
    """Follows a training or evaluation loop through its borders.

    Args:
        clock: What is cut.
        warmup: The first steps, this many, are flagged as warm-up.

    Attributes:
        step: Number of the step now running, from 0.
        rows: Finished steps that nobody has taken yet.
        outside: Outside spans that nobody has taken yet.
        flags: Of the step now running; reset at its end.
        epoch: Set by the callback, as are `batch_idx` and `samples`.
        running_batch: Whether the batch is being trained (or evaluated) at this moment.
    """

    def __init__(self, clock: PhaseClock, *, warmup: int = 0) -> None:
        self.clock = clock
        self.step = self.epoch = self.batch_idx = 0
        self.samples = UNKNOWN_SAMPLES
        self.flags = 0
        self.running_batch = False
        self.rows = StepRows(clock)
        self.outside: list[Outside] = []
        self._warmup = warmup
        self._where = SETUP
        self._in_step = False
        self._ran = False
        self._starting_up = False
        self._startup = clock.slot(Phase.DATA_WAIT, WORKER_STARTUP)

    def start(self, at_ns: int | None = None) -> None:
        """Begin; everything up to the first epoch is `setup`."""
        self.clock.start(at_ns)

    def begin_step(self) -> None:
        """A step begins, unless one is running whose batch has not run yet.

        So the fetches by which a prefetching loader fills up belong to the first step.
        """
        if self._in_step and not self._ran:
            return
        if self._starting_up:
            self._starting_up = False
            self.clock.swap(0)
        if self._in_step:
            self._end_step()
        else:
            self._leave_outside()
        self._in_step, self._ran = True, False

    def fetch(self) -> None:
        """A batch is about to be fetched; not a border from inside a `dataloader_iter` step."""
        if not self.running_batch:
            self.begin_step()

    def run_batch(self) -> None:
        """The step now running begins to train (or evaluate) its batch."""
        self._ran = self.running_batch = True

    def begin_epoch(self) -> None:
        """The loop over batches begins; until its first fetch it starts data workers."""
        self.outside_is(EPOCH_START)
        self.flags |= StepFlag.EPOCH_START
        self._starting_up = True
        self.clock.swap(self._startup)

    def end_epoch(self, *, unfinished: bool = False) -> None:
        """The loop over batches has ended, and its last step with it."""
        if self._starting_up:
            self._starting_up = False
            self.clock.swap(0)
        if self._in_step and self._ran:
            if unfinished:
                self.flags |= StepFlag.UNFINISHED
            self._end_step()
        # A fetch that found no batch left, or whose batch was skipped, is no step.
        self._in_step = self._ran = False
        self._where = EPOCH_END

    def outside_is(self, where: str) -> None:
        """Name the time outside steps from now on."""
        if not self._in_step and where != self._where:
            self._leave_outside()
            self._where = where

    def stop(self, *, unfinished: bool) -> int:
        """End whatever is running; returns the clock's time of it."""
        if self._in_step:
            self.end_epoch(unfinished=unfinished)
        self._leave_outside()
        return self.clock.last_ns

    def _end_step(self) -> None:
        if self.step < self._warmup:
            self.flags |= StepFlag.WARMUP
        facts = (self.step, self.epoch, self.batch_idx, self.samples, self.flags)
        self.rows.append(facts)
        self.step += 1
        self.batch_idx += 1
        self.samples = UNKNOWN_SAMPLES
        self.flags = 0
        if len(self.clock.codes) > LOG_LIMIT:
            self.clock.settle()

    def _leave_outside(self) -> None:
        self.outside.append(Outside(self._where, self.clock.cut()))
        self.flags &= StepFlag.EPOCH_START
