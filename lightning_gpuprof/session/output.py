"""The one output that all callbacks of a Trainer share: this rank's record file."""

import os
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.records.schema import Note, Record, RunEnd
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.session.log_dir import resolve_session
from lightning_gpuprof.session.marker import write_marker
from lightning_gpuprof.session.rank_store import RankStore
from lightning_gpuprof.session.run_facts import run_start
from lightning_gpuprof.session.timed_calls import TimedCalls

if TYPE_CHECKING:
    from lightning_gpuprof.session.step_start import StepBorders
    from lightning_gpuprof.timing.components import Component
    from lightning_gpuprof.timing.phase_clock import PhaseClock

_WRITE_EVERY_NS = 15_000_000_000
_WAIT_FRAC = 0.5
"""Full windows of records wait at most this long, and this share of the run so far, to be written
together. A killed process (SIGKILL, a lost node) loses at most that and one window; an exception,
Ctrl-C and Lightning's SIGTERM lose nothing."""


class RunOutput:
    """Keeps one session's records and appends them to this rank's file.

    Get it with `RunOutput.of(trainer)` in `setup`, where rank 0 tells the others the log dir. A
    session lasts until `end` was called; the next `of` begins a new one. A copy (pickle, deepcopy)
    of an output is None: a copied callback is set up again by its own Trainer.
    """

    def __init__(
        self, trainer: Trainer, run_dir: str, *, session: int, now: Callable[[], int]
    ) -> None:
        self.run_dir = run_dir
        self.rank = int(trainer.global_rank)
        self.session = session  # from 0; where rank 0 has told it, the same on every rank
        self.step_flags = 0  # of the running step; `PhaseTimer` takes them as its batch begins
        self.timer, self.phases, self.config = "", list[str](), dict[str, Any]()  # for `RunStart`
        # Of a `PhaseTimer`, where there is one:
        self.phase_clock: PhaseClock | None = None
        self.components: Callable[[str], Component] | None = None
        self.borders: list[StepBorders] | None = None
        self.ranks = RankStore()
        self.calls = TimedCalls()  # put back by `end` at the latest
        self.ended = self.unwritten = False
        self.now = now
        self.started_ns = now()
        self.started_unix_ns = time.time_ns()
        self._trainer = ref(trainer)
        self._writer = RecordWriter(run_dir, rank=self.rank)
        self._step: Callable[[], int] = _no_steps
        self._waiting: list[Record] | None = []

    @classmethod
    def of(
        cls,
        trainer: Trainer,
        *,
        log_dir: str | os.PathLike[str] | None = None,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> "RunOutput":
        """Return the Trainer's output, beginning a session where none is running.

        Of `log_dir`, in the place of the loggers', and of the clock the first caller's count.
        """
        last = _OUTPUTS.get(trainer)
        if last is not None and not last.ended:
            return last
        if log_dir is None and last is not None:
            log_dir = last.run_dir
        ranks = RankStore.of(trainer)
        run_dir, session = resolve_session(trainer, log_dir, ranks)
        output = cls(trainer, run_dir, session=session, now=now)
        output.ranks = ranks
        _OUTPUTS[trainer] = output
        if output.rank == 0:
            output._try(lambda: write_marker(output.run_dir))
        return output

    @property
    def step(self) -> int:
        """The step now running, from 0; counted by `PhaseTimer`, and 0 without one."""
        return self._step()

    def count_steps(self, step: Callable[[], int]) -> None:
        """Let a callback that counts steps provide `step`."""
        self._step = step

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

    def flush(self) -> None:
        """Append what was kept to the file; the first flush begins the session's `RunStart`.

        A folder that cannot be written or a full disk warns once, and ends recording.
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
        """Write `RunEnd` and flush; every callback calls this in `teardown` and `on_exception`.

        Only the first call writes, except that a later one which knows the steps (the
        `PhaseTimer`'s) adds a fuller record: readers take the last.
        """
        last = self.step if steps is None else steps
        self._step = lambda: last  # who has counted them holds the Trainer, whose value this is
        if not self.ended or steps is not None:
            self.write(
                RunEnd(
                    status=status,
                    wall_ns=self.clock() if wall_ns is None else wall_ns,
                    steps=last,
                    own_cost_ns_per_step=own_cost_ns_per_step,
                    error=None if error is None else f"{type(error).__name__}: {error}",
                )
            )
        self.ended = True
        self.calls.restore()
        self.flush()
        self.ranks.close(delete=self.rank == 0)
        self._writer.close()

    def _begin(self, waiting: list[Record]) -> None:
        writer = RecordWriter(self.run_dir, rank=self.rank)
        trainer = self._trainer()
        if trainer is not None:
            start = run_start(trainer, session=self.session, started_unix_ns=self.started_unix_ns)
            start.timer, start.phases, start.config = self.timer, list(self.phases), self.config
            start.hosts = self.ranks.hosts() if self.rank == 0 else []
            for record in (start, *waiting):
                writer.write(record)
        # At the end: after Ctrl-C amid this it is done again.
        self._writer = writer
        self._waiting = None

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            self.unwritten = True
            self._writer = RecordWriter(self.run_dir, rank=self.rank)
            warnings.warn(
                f"lightning_gpuprof cannot write to {self.run_dir}: {error}. Training goes on, and "
                "nothing more is recorded in this run. Pass log_dir=... to write elsewhere.",
                RuntimeWarning,
                stacklevel=3,
            )

    @override
    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _no_output, ()


def _no_steps() -> int:
    return 0


def _no_output() -> None:
    return None


_OUTPUTS: "WeakKeyDictionary[Trainer, RunOutput]" = WeakKeyDictionary()
