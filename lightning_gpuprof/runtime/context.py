"""What the parts of one session share: clock, log dir, rank, stage and the writer of records.

Below are Protocols of what a part may offer to others. Parts get such an offer when they are
composed (`RecordingCallback.use_timing`); no part looks another part up.
"""

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Trainer, stage_of
from lightning_gpuprof.records.schema import Note, Record, RunEnd, RunStart
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.runtime.console import say
from lightning_gpuprof.runtime.guard import text_of
from lightning_gpuprof.runtime.log_dir import resolve_session
from lightning_gpuprof.runtime.marker import write_marker
from lightning_gpuprof.runtime.rank_store import RankStore
from lightning_gpuprof.runtime.run_start import run_start
from lightning_gpuprof.runtime.wrap import Wrappers


class StepCounter(Protocol):
    """Counts the steps of a session."""

    @property
    def step(self) -> int:
        """Number of the running step, from 0."""


class StepListener(Protocol):
    """A part that is called where steps begin."""

    def step_begins(self) -> object:
        """The next step is about to begin, before the fetch of its batch."""

    def timing_ends(self) -> object:
        """No more calls of `step_begins` will follow, though the fit may go on."""


class StepSource(Protocol):
    """Knows where steps begin, and calls its listeners there."""

    @property
    def running(self) -> bool:
        """Whether listeners are called; False once the timing has ended."""

    @property
    def listeners(self) -> list[StepListener]:
        """The listeners, in the order of their calls; a listener adds and removes itself."""


class TimedPart(Protocol):
    """A named part of whatever phase it is entered in, as a context manager."""

    name: str

    @property
    def timed(self) -> bool:
        """Whether the running step is timed by phase."""

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: Any) -> None: ...


class StepTiming(StepCounter, StepSource, Protocol):
    """What the timing of a session offers to the other parts."""

    def part(self, name: str) -> TimedPart:
        """Return the timed part of a name, the same object each time."""

    def garbage_collections(self) -> AbstractContextManager[Any]:
        """Return the region of full garbage collections, a phase that is measured from now on."""

    def flag_next_step(self, flag: int) -> None:
        """Set a `StepFlag` on the step whose batch begins next."""


@dataclass
class FixedSteps:
    """The step of a session in which nobody counts steps: not yet, or no longer."""

    step: int = 0


Describer = Callable[[RunStart], object]
"""Completes the first record of a session with what a part knows."""
Ending = Callable[[str, BaseException | None], object]
"""Puts back what a part has changed; gets the status and the error that the session ends with."""
_WRITE_EVERY_NS = 15_000_000_000
_WAIT_FRAC = 0.5
"""Full windows of records wait to be written together, at most this long and this share of the run
so far. A process that is killed loses that much; an exception, Ctrl-C or SIGTERM nothing."""


class RunContext:
    """The clock, place and records of one session, which are appended to this rank's file.

    Get it with `RunContext.of(trainer)` in `setup`, where ranks agree on the log dir. A session
    lasts until `end` is called; the next `of` begins a new session. What a part changes it puts
    back in a function that it hands to `at_end`, since any part may end the session. A copy
    (pickle, deepcopy) of a context is None: a copied callback is set up by its own Trainer.
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
        self.session = session  # from 0; as a rule the same on every rank
        self.ranks = ranks
        self.wrappers = Wrappers()  # put back by `end` at the latest
        self._describers: list[Describer] = []
        self._endings: list[Ending] = []
        self.ended = self.unwritten = False
        self.now = now
        self.started_ns = now()
        self.started_unix_ns = time.time_ns()
        self._trainer = ref(trainer)
        self._writer = RecordWriter(run_dir, rank=self.rank)
        self._steps: StepCounter = FixedSteps()
        self._waiting: list[Record] | None = []

    @classmethod
    def of(
        cls,
        trainer: Trainer,
        *,
        log_dir: str | os.PathLike[str] | None = None,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> "RunContext":
        """Return the Trainer's context, and begin a session where none is running.

        `log_dir`, which replaces the loggers', and the clock `now` are the first caller's.
        """
        running = cls.running(trainer)
        if running is not None:
            if running._waiting is not None:
                return running
            running.end("exception")  # of an earlier fit, whose end was not noticed
        last = _OUTPUTS.get(trainer)
        if log_dir is None and last is not None:
            log_dir = last.run_dir if last.stage == "fit" else os.path.dirname(last.run_dir)
        ranks = RankStore.of(trainer)
        run_dir, session = resolve_session(trainer, log_dir, ranks)
        context = cls(trainer, run_dir, session=session, ranks=ranks, now=now)
        _OUTPUTS[trainer] = context
        if context.rank == 0:
            context._try(lambda: write_marker(context.run_dir))
        return context

    @staticmethod
    def running(trainer: Trainer) -> "RunContext | None":
        """Return the context of the session that runs in a Trainer, if there is one."""
        last = _OUTPUTS.get(trainer)
        return None if last is None or last.ended else last

    @property
    def step(self) -> int:
        """Number of the running step, from 0; always 0 where nobody counts the steps."""
        return self._steps.step

    def count_steps_by(self, counter: StepCounter) -> None:
        """Number notes and other records by a counter, until the session ends."""
        self._steps = counter

    @property
    def over(self) -> bool:
        """Whether the fit has ended. Lightning sets this before it calls the end hooks."""
        trainer = self._trainer()
        return trainer is None or trainer.state.stopped

    def at_end(self, ending: Ending, *, last: bool = False) -> None:
        """Call a function as the session ends: before those added earlier, or as the `last`."""
        self._endings.insert(0 if last else len(self._endings), ending)

    def at_start(self, describe: Describer) -> None:
        """Let a function complete the session's first record right before it is written."""
        self._describers.append(describe)

    def clock(self) -> int:
        """Return ns since the session's start."""
        return self.now() - self.started_ns

    def windows_left(self, written_ns: int, waiting: int) -> int:
        """Return how many more windows to wait for before writing; 0 is to write now.

        `waiting` windows have become full since the last write at `written_ns`, which gives their
        pace. A call costs a training loop some 50 us.
        """
        now = self.now()
        waited_ns = max(1, now - written_ns)
        grows_ns = (_WAIT_FRAC * (now - self.started_ns) - waited_ns) / (1 - _WAIT_FRAC)
        left_ns = min(_WRITE_EVERY_NS - waited_ns, grows_ns)
        return 0 if left_ns <= 0 else max(1, round(left_ns * waiting / waited_ns))

    def write(self, record: Record) -> None:
        """Add a record, which the next flush writes."""
        if self._waiting is not None:
            self._waiting.append(record)
        elif not self.unwritten:
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
        """Append the records to the file; the first flush begins with the session's `RunStart`.

        Where the folder cannot be written or the disk is full, say so once and record no more.
        """
        if self._waiting is not None:
            self._begin(self._waiting)
        if not self.unwritten:
            self._try(self._writer.flush)

    def end(
        self,
        status: str,
        *,
        steps: int | None = None,
        own_cost_ns_per_step: int | None = None,
        error: BaseException | None = None,
        wall_ns: int | None = None,
    ) -> None:
        """End every part, write `RunEnd` and flush; each callback calls this as it ends.

        Only the first call writes, except that a later call which knows the steps (that of the
        `PhaseTimer`) adds a fuller record: readers take the last record.
        """
        while self._endings:
            self._endings.pop()(status, error)
        last = self.step if steps is None else steps
        # The counter refers to the Trainer, and this context must not keep a Trainer alive.
        self._steps = FixedSteps(last)
        if not self.ended or steps is not None:
            self.write(
                RunEnd(
                    status=status,
                    wall_ns=self.clock() if wall_ns is None else wall_ns,
                    steps=last,
                    own_cost_ns_per_step=own_cost_ns_per_step,
                    error=None if error is None else text_of(error),
                )
            )
        self.ended = True
        self.wrappers.restore()
        self.flush()
        self.ranks.close(delete=self.rank == 0)
        self._writer.close()

    def _begin(self, waiting: list[Record]) -> None:
        writer = RecordWriter(self.run_dir, rank=self.rank)
        trainer = self._trainer()
        if trainer is not None:
            start = run_start(trainer, session=self.session, started_unix_ns=self.started_unix_ns)
            start.hosts = self.ranks.hosts() if self.rank == 0 else []
            for describe in self._describers:
                describe(start)
            for record in (start, *waiting):
                writer.write(record)
        # Last, so that the next flush does all of it again where Ctrl-C interrupts this.
        self._writer = writer
        self._waiting = None
        self._describers.clear()

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            self.unwritten = True
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
    """Return the status of a session that this error ends; None is no error.

    >>> status_of(None), status_of(KeyboardInterrupt()), status_of(ValueError())
    ('finished', 'interrupted', 'exception')
    """
    if error is None:
        return "finished"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "exception"


_OUTPUTS: "WeakKeyDictionary[Trainer, RunContext]" = WeakKeyDictionary()
