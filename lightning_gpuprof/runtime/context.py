"""What the parts of one session share: clock, log dir, rank, stage and the writer of records.

Below are Protocols of what a part may offer to others. Parts get such an offer when they are
composed (`RecordingCallback.use_timing`); none looks another one up.
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
from lightning_gpuprof.runtime.run_facts import run_start
from lightning_gpuprof.runtime.wrap import Wrappers


class StepCounter(Protocol):
    """Counts the steps of a session."""

    @property
    def step(self) -> int:
        """Number of the running step, from 0."""


class StepListener(Protocol):
    """Is told where steps begin."""

    def step_begins(self) -> object:
        """The next step is about to begin, before the fetch of its batch."""

    def timing_ends(self) -> object:
        """No more calls of `step_begins` will follow, though the fit may go on."""


class StepSource(Protocol):
    """Knows where steps begin, and tells its listeners."""

    @property
    def running(self) -> bool:
        """Whether listeners are told; False once the timing has ended."""

    @property
    def listeners(self) -> list[StepListener]:
        """Called in order; a listener adds and removes itself."""


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
    """The step of a session in which nobody counts any more, or yet."""

    step: int = 0


Describer = Callable[[RunStart], object]
"""Completes the first record of a session with what a part knows."""
Ending = Callable[[str, BaseException | None], object]
"""Puts back what a part has put in place; given the status and the error that end the session."""
_WRITE_EVERY_NS = 15_000_000_000
_WAIT_FRAC = 0.5
"""Full windows of records wait at most this long, and this share of the run so far, to be written
together: so much a killed process loses, and an exception, Ctrl-C or SIGTERM nothing."""


class RunContext:
    """Keeps one session's records and appends them to this rank's file.

    Get it with `RunContext.of(trainer)` in `setup`, where rank 0 tells the others the log dir. A
    session lasts until `end` was called; the next `of` begins a new one. A part puts back what it
    has changed in what it hands to `at_end`, whoever ends the session. A copy (pickle, deepcopy) of
    a context is None: a copied callback is set up again by its own Trainer.
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
        self.session = session  # from 0; where rank 0 has told it, the same on every rank
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
        """Return the Trainer's context, beginning a session where none is running.

        Of `log_dir`, in the place of the loggers', and of the clock the first caller's count.
        """
        running = cls.running(trainer)
        if running is not None:
            if running._waiting is not None:
                return running
            running.end("exception")  # of an earlier fit, whose end nobody was told of
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
        """Whether the Trainer is through with the fit, as it sets before it tells anybody."""
        trainer = self._trainer()
        return trainer is None or trainer.state.stopped

    def at_end(self, ending: Ending, *, last: bool = False) -> None:
        """Have this called as the session ends, before what was handed over earlier, or `last`."""
        self._endings.insert(0 if last else len(self._endings), ending)

    def at_start(self, describe: Describer) -> None:
        """Have this complete the session's first record right before it is written."""
        self._describers.append(describe)

    def clock(self) -> int:
        """Return ns since the session's start."""
        return self.now() - self.started_ns

    def windows_left(self, written_ns: int, waiting: int) -> int:
        """Return in how many windows those that wait are to be written, by their pace; 0 is now.

        `waiting` have become full since `written_ns`. Asking costs a training loop some 50 us.
        """
        now = self.now()
        waited_ns = max(1, now - written_ns)
        grows_ns = (_WAIT_FRAC * (now - self.started_ns) - waited_ns) / (1 - _WAIT_FRAC)
        left_ns = min(_WRITE_EVERY_NS - waited_ns, grows_ns)
        return 0 if left_ns <= 0 else max(1, round(left_ns * waiting / waited_ns))

    def write(self, record: Record) -> None:
        """Keep a record for the next flush."""
        if self._waiting is not None:
            self._waiting.append(record)
        elif not self.unwritten:
            self._writer.write(record)

    def note(self, name: str, value: Any = None, message: str = "") -> None:
        """Keep a `Note` of the step now running."""
        self.write(Note(step=self.step, name=name, value=value, message=message))

    def warn(self, message: str) -> None:
        """Show on rank 0 what does not work."""
        if self.rank == 0:
            say(message, logging.WARNING)

    def tell(self, message: str) -> None:
        """Show on rank 0 what is being done."""
        if self.rank == 0:
            say(message)

    def flush(self) -> None:
        """Append what was kept to the file; the first flush begins the session's `RunStart`.

        A folder that cannot be written or a full disk is said once, and ends recording.
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
        """End every part, write `RunEnd` and flush; any callback may call this, and each does.

        Only the first call writes, except that a later one which knows the steps (the
        `PhaseTimer`'s) adds a fuller record: readers take the last.
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
        # At the end: after Ctrl-C amid this it is done again.
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
    """Return the status of a session that this error ends, or none.

    >>> status_of(None), status_of(KeyboardInterrupt()), status_of(ValueError())
    ('finished', 'interrupted', 'exception')
    """
    if error is None:
        return "finished"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "exception"


_OUTPUTS: "WeakKeyDictionary[Trainer, RunContext]" = WeakKeyDictionary()
