"""Has traces compressed and analysed by processes of their own, so that training need not wait."""

import glob
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Protocol

from lightning_gpuprof.callbacks.output.child_process import environment
from lightning_gpuprof.low_priority import cpu_share, first_to_go, step_back
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LOOK_S = 0.1
"""Who waits looks this often whether the analysis is there."""
STARVED_FRAC = 0.5
"""Who had a core for less of the time loses less by beginning anew than by stepping back."""


_MAX_LEFT = 1
"""So many left behind may still run when a fit leaves more."""


class Process(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int
    returncode: int | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


def spawn(path: str, *, keep_priority: bool = False) -> Process:
    """Start `finish-trace` for one plain trace file.

    A session of its own keeps Ctrl-C in the terminal from ending it, and it outlives a training
    process that is killed. It computes on one thread, and steps back behind everything else from
    its first moment, unless `keep_priority` says otherwise.
    """
    options = ["--keep-priority"] if keep_priority else []
    process = subprocess.Popen(
        [sys.executable, "-m", "lightning_gpuprof.cli", "finish-trace", *options, path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(dict.fromkeys(_THREADS, "1")),
        start_new_session=True,
    )
    (first_to_go if keep_priority else step_back)(process.pid)
    return process


def spawn_now(path: str) -> Process:
    """Start `finish-trace` at this process's own priority."""
    return spawn(path, keep_priority=True)


_LEFT: list[tuple[str, Process]] = []
"""What this process's fits left to itself, by plain file, the oldest first: kept until it ends, as
Python warns of a `Popen` that goes before its process does."""


class TraceFinisher:
    """Runs at most so many finishing processes at once; the others wait their turn.

    Args:
        max_running: Processes at once.
        start: Starts one for a plain trace file; tests pass a fake.
        start_now: Starts one that does not step back.
        step_back: Gives a process the lowest priority.
        cpu_share: Returns the share of its life for which a process had a core, if that is known.
        now: Returns seconds.
    """

    def __init__(
        self,
        *,
        max_running: int = 1,
        start: Callable[[str], Process] = spawn,
        start_now: Callable[[str], Process] = spawn_now,
        step_back: Callable[[int], None] = step_back,
        cpu_share: Callable[[int], float | None] = cpu_share,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_running = max_running
        self._start = self._start_behind = start
        self._start_now = start_now
        self._step_back = step_back
        self._cpu_share = cpu_share
        self._now = now
        self._waiting: deque[str] = deque()
        self._running: dict[str, Process] = {}
        self._failed: dict[str, str] = {}

    def submit(self, path: str) -> None:
        """Finish a plain trace file as soon as a place is free."""
        self._waiting.append(path)
        self.poll()

    def poll(self) -> None:
        """Take note of what has ended and start what waits; never blocks."""
        _forget_ended()
        for path, process in list(self._running.items()):
            if process.poll() is not None:
                self._ended(path, process)
        while self._waiting and len(self._running) < self._max_running:
            path = self._waiting.popleft()
            self._running[path] = self._start(path)

    def wait(self, timeout_s: float) -> Sequence[str]:
        """Wait for the analyses, at most so long; returns the files that lack theirs.

        Not for the drawings, which come after them and which the tab alone needs.
        """
        deadline = self._now() + timeout_s
        self.poll()
        while (lacking := self._lacking()) and (left_s := deadline - self._now()) > 0:
            process = next(iter(self._running.values()))
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=min(_LOOK_S, left_s))
            self.poll()
        return lacking

    def _lacking(self) -> Sequence[str]:
        running = (p for p in self._running if not os.path.exists(f"{p}.gz{ANALYSIS_SUFFIX}"))
        return [*running, *self._waiting]

    def hurry(self) -> None:
        """Begin anew what got no time, without stepping back: training is over.

        On a busy machine who has stepped back gets no time at all, and who may not raise its own
        priority (all but root) cannot raise theirs either.
        """
        self.poll()
        self._start = self._start_now
        lacking = self._lacking()
        starved = [
            (path, process)
            for path, process in self._running.items()
            if path in lacking
            and (share := self._cpu_share(process.pid)) is not None
            and share < STARVED_FRAC
        ]
        # First it waits again: Ctrl-C may come at any moment, and no killed one be taken for done.
        for path, process in reversed(starved):
            self._waiting.appendleft(path)
            del self._running[path]
            process.kill()
        for path, process in starved:
            process.wait()
            _clean_up(path, process)
        self.poll()

    def make_room(self, timeout_s: float) -> bool:
        """Wait until what is not done here can be left; tells whether that is so.

        Of many short fits in a row each may leave a process: all of them would run at once.
        """
        deadline = self._now() + timeout_s
        self.poll()
        while (self._running or self._waiting) and len(_LEFT) > _MAX_LEFT:
            if (left_s := deadline - self._now()) <= 0:
                return False
            with suppress(subprocess.TimeoutExpired):
                _LEFT[0][1].wait(timeout=min(_LOOK_S, left_s))
            self.poll()
        return True

    def leave(self) -> None:
        """Leave what is not done to itself, behind all else: nobody waits for it any longer.

        What still waits is started, whatever the cap: this process may be about to end.
        """
        self._start = self._start_behind
        for process in self._running.values():
            self._step_back(process.pid)
        while self._waiting:
            path = self._waiting.popleft()
            self._running[path] = self._start(path)
        _LEFT.extend(self._running.items())
        self._running.clear()

    def failures(self) -> dict[str, str]:
        """Return, once, what went wrong since the last call, by plain file."""
        failed, self._failed = self._failed, {}
        return failed

    def _ended(self, path: str, process: Process) -> None:
        del self._running[path]
        said = ""
        if process.stderr is not None:
            said = process.stderr.read().decode(errors="replace").strip()
        _clean_up(path, process)
        if process.returncode:
            self._failed[path] = said.splitlines()[-1] if said else f"status {process.returncode}"


def _forget_ended() -> None:
    for path, process in [one for one in _LEFT if one[1].poll() is not None]:
        _LEFT.remove((path, process))
        _clean_up(path, process)


def _clean_up(path: str, process: Process) -> None:
    """Close the pipe of a process that has ended, and remove what it left half written."""
    if process.stderr is not None:
        process.stderr.close()
    for part in glob.glob(f"{glob.escape(path)}.gz*.{process.pid}.part"):
        with suppress(OSError):
            os.unlink(part)
