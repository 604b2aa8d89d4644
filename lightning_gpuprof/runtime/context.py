"""What the parts of one session share: clock, log dir, rank, stage and the writer of records.

The Protocols below describe what the part that times the steps offers to the other parts. They
receive it while they are set up (`RecordingCallback.use_timing`). No part looks another part up.
"""

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary, ref

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Trainer, stage_of
from lightning_gpuprof.records.facts import SlowDown
from lightning_gpuprof.records.schema import Note, Record, RunEnd, RunStart
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.runtime import fits
from lightning_gpuprof.runtime.console import say
from lightning_gpuprof.runtime.guard import text_of
from lightning_gpuprof.runtime.log_dir import resolve_session
from lightning_gpuprof.runtime.marker import write_marker
from lightning_gpuprof.runtime.rank_store import RankStore
from lightning_gpuprof.runtime.run_start import run_start
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.shifts.step_rows import StepRows


class StepCounter(Protocol):
    """Counts the steps of a session."""

    @property
    def step(self) -> int:
        """Number of the running step, from 0."""

    @property
    def in_step(self) -> bool:
        """Whether a step is running. False between epochs."""


class StepListener(Protocol):
    """A part that is called at the beginning of every step."""

    def step_begins(self) -> object:
        """Called right before a step begins, which is before its batch is fetched."""

    def timing_ends(self) -> object:
        """Called when the timing ends. The fit may go on, but `step_begins` is not called again."""


class StepSource(Protocol):
    """Calls its listeners at the beginning of every step."""

    @property
    def running(self) -> bool:
        """Whether listeners are still called. False once the timing has ended."""

    @property
    def listeners(self) -> list[StepListener]:
        """The listeners in the order of their calls. A listener adds and removes itself."""


class WindowListener(Protocol):
    """A part that receives the steps of every window."""

    def window_ends(self, rows: StepRows) -> object:
        """Called with the steps of a window that has been written, once in 50 to 500 steps.

        The last window of a session is left out, because the fit has ended by then.
        """


@runtime_checkable
class SlowDownListener(Protocol):
    """A callback that is called when training has become slower."""

    def on_slow_down(self, slow_down: SlowDown) -> object:
        """Called at a window's end, once the slow-down is sure.

        It is called again with the same `since_step` once the slow-down has ended, which is when
        `until_step` is known.
        """


class TimedPart(Protocol):
    """A context manager that times its body as a named part of the current phase."""

    name: str

    @property
    def timed(self) -> bool:
        """Whether the running step is timed by phase."""

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: Any) -> None: ...


class StepTiming(StepCounter, StepSource, Protocol):
    """What the timing of a session offers to the other parts."""

    @property
    def window_listeners(self) -> list[WindowListener]:
        """The parts that receive the steps of every window. They add and remove themselves."""

    def part(self, name: str) -> TimedPart:
        """Return the timed part with this name. The same name gives the same object."""

    def garbage_collections(self) -> AbstractContextManager[Any]:
        """Return the region of full garbage collections.

        From this call on, garbage collection counts as a phase that the session measures.
        """

    def flag_next_step(self, flag: int) -> None:
        """Set a `StepFlag` on the step whose batch begins next."""


@dataclass
class ConstantStep:
    """A step number that does not change: before steps are counted, and after the session."""

    step: int = 0
    in_step: bool = False


Describer = Callable[[RunStart], object]
"""Adds what a part knows to the first record of a session."""
Ending = Callable[[str, BaseException | None], object]
"""Restores what a part has changed. It receives the session's final status and its error."""
_MOST_WAIT_NS = 15_000_000_000
_MOST_WAIT_FRAC = 0.5
"""Full windows of records wait to be written together, but no longer than this time and this share
of the run so far. A process that is killed loses the windows that wait; after an exception, Ctrl-C
or SIGTERM they are still written."""


class RunContext:
    """The clock, the log dir and the records of a session.

    The parts of a session get it with `RunContext.of(trainer)` in `setup`, where ranks agree on the
    log dir. Records are appended to the file of this rank. A session lasts until `end` is called,
    and the next `of` begins a new session. Any part may end the session, so every part hands
    `at_end` a function that restores what the part has changed. A copy of a context (by pickle or
    deepcopy) is None, since a copied callback is set up by its own Trainer.

    Attributes:
        session: The session's number, from 0. As a rule it is the same on all ranks.
        wrappers: Wrapped methods, which `end` restores at the latest.
        cannot_write: Whether the log dir cannot be written, so that nothing more is recorded.
    """

    def __init__(
        self,
        trainer: Trainer,
        run_dir: str,
        *,
        session: int,
        ranks: RankStore,
        now: Callable[[], int],
    ) -> None:
        self.run_dir = run_dir
        self.rank = int(trainer.global_rank)
        self.stage = stage_of(trainer)
        self.session = session
        self.ranks = ranks
        self.wrappers = Wrappers()
        self._describers: list[Describer] = []
        self._endings: list[Ending] = []
        self.ended = self.cannot_write = False
        self.now = now
        self.started_ns = now()
        self.started_unix_ns = time.time_ns()
        self._trainer = ref(trainer)
        self._writer = RecordWriter(run_dir, rank=self.rank)
        self._steps: StepCounter = ConstantStep()
        self._first_records: list[Record] | None = []
        """The records before the first flush; None after it."""

    @classmethod
    def of(
        cls,
        trainer: Trainer,
        *,
        log_dir: str | os.PathLike[str] | None = None,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> "RunContext":
        """Return the Trainer's context. Begin a new session if none is being set up.

        Args:
            trainer: The Trainer.
            log_dir: Replaces the log dir of the loggers, if this call begins the session.
            now: The clock in nanoseconds, if this call begins the session.
        """
        running = cls.running(trainer)
        if running is not None:
            if running._first_records is not None:
                return running
            running.end("exception")  # the session of an earlier fit, which no part has ended
        last = _LAST_CONTEXTS.get(trainer)
        if log_dir is None and last is not None:
            log_dir = last.run_dir if last.stage == "fit" else os.path.dirname(last.run_dir)
        ranks = RankStore.of(trainer)
        run_dir, session = resolve_session(trainer, log_dir, ranks)
        context = cls(trainer, run_dir, session=session, ranks=ranks, now=now)
        _LAST_CONTEXTS[trainer] = context
        fits.begin(context)
        if context.rank == 0:
            context._try(lambda: write_marker(context.run_dir))
        return context

    @staticmethod
    def running(trainer: Trainer) -> "RunContext | None":
        """Return the context of the session that runs in a Trainer, or None."""
        last = _LAST_CONTEXTS.get(trainer)
        return None if last is None or last.ended else last

    @property
    def step(self) -> int:
        """Number of the running step, from 0. Stays 0 if no part counts the steps."""
        return self._steps.step

    @property
    def in_step(self) -> bool:
        """Whether a step is running. False between epochs, and if no part counts the steps."""
        return self._steps.in_step

    def count_steps_by(self, counter: StepCounter) -> None:
        """Take the step numbers of records from a counter, until the session ends."""
        self._steps = counter

    @property
    def fit_has_ended(self) -> bool:
        """Whether the fit has ended. Lightning sets this before it calls the end hooks."""
        trainer = self._trainer()
        return trainer is None or trainer.state.stopped

    def at_end(self, ending: Ending, *, last: bool = False) -> None:
        """Call a function when the session ends.

        The functions are called in reverse order of these calls. With `last`, the function is
        called after all that have been added so far.
        """
        self._endings.insert(0 if last else len(self._endings), ending)

    def at_start(self, describe: Describer) -> None:
        """Call a function with the session's first record, right before the record is written."""
        self._describers.append(describe)

    def clock(self) -> int:
        """Return ns since the session's start."""
        return self.now() - self.started_ns

    def windows_left(self, written_ns: int, waiting: int) -> int:
        """Return how many more windows to wait for before writing. 0 means to write now.

        A call costs a training loop some 50 us, so that callers ask once in several windows.

        Args:
            written_ns: The time of the last write.
            waiting: How many windows have become full since then, which shows their pace.
        """
        now = self.now()
        waited_ns = max(1, now - written_ns)
        # Both the wait and the run grow by `growth_ns` until the wait is its share of the run.
        run_ns = now - self.started_ns
        growth_ns = (_MOST_WAIT_FRAC * run_ns - waited_ns) / (1 - _MOST_WAIT_FRAC)
        left_ns = min(_MOST_WAIT_NS - waited_ns, growth_ns)
        return 0 if left_ns <= 0 else max(1, round(left_ns * waiting / waited_ns))

    def write(self, record: Record) -> None:
        """Add a record, which the next flush writes to the file."""
        if self._first_records is not None:
            self._first_records.append(record)
        elif not self.cannot_write:
            self._writer.write(record)

    def note(self, name: str, value: Any = None, message: str = "") -> None:
        """Write a `Note` with the number of the running step."""
        self.write(Note(step=self.step, name=name, value=value, message=message))

    def warn(self, message: str) -> None:
        """Show a warning on rank 0."""
        if self.rank == 0:
            say(message, logging.WARNING)

    def inform(self, message: str) -> None:
        """Show a message on rank 0."""
        if self.rank == 0:
            say(message)

    def flush(self) -> None:
        """Append the new records to the file. The first flush begins with the session's `RunStart`.

        If the folder cannot be written or the disk is full, warn once and record no more.
        """
        if self._first_records is not None:
            self._begin(self._first_records)
        if not self.cannot_write:
            self._try(self._writer.flush)

    def end(
        self,
        status: str,
        *,
        steps: int | None = None,
        own_cost_ns_per_step: int | None = None,
        timing_ns_per_step: int | None = None,
        error: BaseException | None = None,
        wall_ns: int | None = None,
    ) -> None:
        """End the session: call the functions of `at_end`, write a `RunEnd`, and flush.

        Every callback calls this when it ends, and only the first call writes a record. However,
        the `PhaseTimer`, which passes `steps`, always writes a fuller one. Readers use the last.
        """
        while self._endings:
            self._endings.pop()(status, error)
        fits.end(self)
        step_count = self.step if steps is None else steps
        # The counter refers to the Trainer, which this context must not keep alive.
        self._steps = ConstantStep(step_count)
        if not self.ended or steps is not None:
            self.write(
                RunEnd(
                    status=status,
                    wall_ns=self.clock() if wall_ns is None else wall_ns,
                    steps=step_count,
                    own_cost_ns_per_step=own_cost_ns_per_step,
                    timing_ns_per_step=timing_ns_per_step,
                    error=None if error is None else text_of(error),
                )
            )
        self.ended = True
        self.wrappers.restore()
        self.flush()
        self.ranks.close(delete=self.rank == 0)
        self._writer.close()

    def _begin(self, first_records: list[Record]) -> None:
        writer = RecordWriter(self.run_dir, rank=self.rank)
        trainer = self._trainer()
        if trainer is not None:
            start = run_start(trainer, session=self.session, started_unix_ns=self.started_unix_ns)
            start.hosts = self.ranks.hosts() if self.rank == 0 else []
            for describe in self._describers:
                describe(start)
            for record in (start, *first_records):
                writer.write(record)
        # This comes last: if Ctrl-C interrupts the lines above, the next flush repeats all of it.
        self._writer = writer
        self._first_records = None
        self._describers.clear()

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            self.cannot_write = True
            self._writer = RecordWriter(self.run_dir, rank=self.rank)
            say(
                f"lightning_gpuprof cannot write to {self.run_dir}: {error}. Training goes on, and "
                "nothing more is recorded in this run. Pass log_dir=... to write elsewhere.",
                logging.WARNING,
            )

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def status_of(error: BaseException | None) -> str:
    """Return the status of a session that ends with this error, or without an error (None).

    >>> status_of(None), status_of(KeyboardInterrupt()), status_of(ValueError())
    ('finished', 'interrupted', 'exception')
    """
    if error is None:
        return "finished"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "exception"


_LAST_CONTEXTS: "WeakKeyDictionary[Trainer, RunContext]" = WeakKeyDictionary()
