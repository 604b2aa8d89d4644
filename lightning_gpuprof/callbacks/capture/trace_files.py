"""Exports a cycle's trace, keeps its record, and hands it to a process that finishes it."""

import glob
import os
import time
import warnings
from collections.abc import Callable, Sequence

from lightning_gpuprof.callbacks.capture.cycles import Recorded
from lightning_gpuprof.callbacks.capture.patience import PATIENCE, Patience
from lightning_gpuprof.callbacks.capture.trace_finisher import TraceFinisher
from lightning_gpuprof.callbacks.output.console import say
from lightning_gpuprof.callbacks.output.run_output import RunOutput
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, DRAWING_SUFFIX, plugin_dir, trace_name
from lightning_gpuprof.records.schema import Note, ProfilerCycle
from lightning_gpuprof.units import size

_WAIT_S = 30.0
_SILENT_WAIT_S = 1.0
"""Longer waits at the end of a fit are said, lest training seem to hang."""
LARGE_TRACE_BYTES = 250_000_000
"""From here on a trace takes viewers long to open; at twice this size most give up."""


class TraceFiles:
    """One rank's traces of one session.

    Args:
        output: Gets a record of each cycle.
        finisher: Compresses and analyses.
        keep: Only the last so many traces stay; None keeps all.
        shrinkers: The options in use that make a trace large, as text to suggest.
        patience: Says whether the end of this fit may wait.
        now: Returns nanoseconds.
    """

    def __init__(
        self,
        output: RunOutput,
        finisher: TraceFinisher,
        *,
        keep: int | None,
        shrinkers: str,
        patience: Patience = PATIENCE,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._output = output
        self._finisher = finisher
        self._keep = keep
        self._shrinkers = shrinkers
        self._patience = patience
        self._now = now
        self._folder = plugin_dir(output.run_dir)
        self._names: list[str] = []

    def save(self, recorded: Recorded) -> None:
        """Export a recording as plain JSON; all else is done by another process.

        Raises:
            OSError: The folder cannot be made.
            RuntimeError: The file cannot be written.
        """
        name = trace_name(self._output.rank, self._output.session, recorded.cycle)
        path = os.path.join(self._folder, name)
        plain = path.removesuffix(".gz")
        os.makedirs(self._folder, exist_ok=True)
        begun = self._now()
        recorded.trace.export(plain)
        export_ns = self._now() - begun
        if not os.path.exists(plain):  # Kineto prints its errors and goes on
            raise OSError(f"torch.profiler left no file in {self._folder}: the disk may be full")
        plain_bytes = os.path.getsize(plain)
        self._finisher.submit(plain)
        self._output.write(
            ProfilerCycle(
                cycle=recorded.cycle,
                first_step=recorded.first_step,
                last_step=recorded.last_step,
                trace_file=name,
                stop_ns=recorded.stop_ns,
                export_ns=export_ns,
                trace_bytes=plain_bytes,
            )
        )
        if not recorded.whole:
            message = (
                f"Cycle {recorded.cycle} ended early: training did, or another profiler began."
            )
            self._output.write(Note(step=recorded.last_step, name="cycle-cut", message=message))
        self._warn_if_large(recorded, plain_bytes)
        self._output.flush()
        self._names.append(name)
        self._drop_old()

    def wait(self, timeout_s: float | None, room_s: float = _WAIT_S) -> None:
        """Wait for the analyses, at most so long or until Ctrl-C, and note which are not there.

        None is half a minute, and of fits in a row the first alone waits; the others, at most
        `room_s`, where what several of them left still runs. Ctrl-C ends the wait alone: training
        has ended, and what follows it in the user's program is none of ours to stop.
        """
        begun = self._now()
        if timeout_s is None:
            timeout_s = _WAIT_S if self._patience.left(begun) else 0.0
        try:
            unfinished = self._wait(timeout_s)
            self._make_room(room_s - (self._now() - begun) / 1e9)
            if unfinished:
                unfinished = self._finisher.wait(0)
        except KeyboardInterrupt:
            unfinished = self._finisher.wait(0)
        self._patience.spend(begun, self._now())
        self._finisher.leave()
        if unfinished:
            names = ", ".join(os.path.basename(path) for path in unfinished)
            self._note("trace-unfinished", f"Still being compressed and analysed: {names}.")
        for path, said in self._finisher.failures().items():
            message = f"{os.path.basename(path)} could not be finished: {said}"
            self._note("trace-failed", message)
            warnings.warn(f"lightning_gpuprof: {message}", RuntimeWarning, stacklevel=2)
        self._output.flush()

    def _wait(self, timeout_s: float) -> Sequence[str]:
        begun = self._now()
        unfinished = self._finisher.wait(min(_SILENT_WAIT_S, timeout_s))
        if not unfinished or timeout_s <= _SILENT_WAIT_S:
            return unfinished
        left_s = timeout_s - (self._now() - begun) / 1e9
        say(
            "[PROFILE] training is done; waiting for its trace's analysis, "
            f"{left_s:.0f} s at most (Ctrl-C: the report without it)"
        )
        self._finisher.hurry()
        return self._finisher.wait(left_s)

    def _make_room(self, room_s: float) -> None:
        if self._finisher.make_room(min(_SILENT_WAIT_S, room_s)) or room_s <= _SILENT_WAIT_S:
            return
        left_s = room_s - _SILENT_WAIT_S
        say(
            "[PROFILE] waiting for the analyses of earlier fits' traces, "
            f"{left_s:.0f} s at most (Ctrl-C: no longer)"
        )
        self._finisher.make_room(left_s)

    def _warn_if_large(self, recorded: Recorded, plain_bytes: int) -> None:
        if plain_bytes < LARGE_TRACE_BYTES:
            return
        steps = recorded.last_step - recorded.first_step + 1
        message = (
            f"The trace of cycle {recorded.cycle} is {size(plain_bytes)} for {steps} steps "
            f"({size(plain_bytes / steps)} each), which viewers open slowly if at all. "
            f"To shrink it: {self._shrinkers}."
        )
        self._output.write(
            Note(
                step=recorded.last_step, name="trace-too-large", value=plain_bytes, message=message
            )
        )
        warnings.warn(f"lightning_gpuprof: {message}", UserWarning, stacklevel=2)

    def _note(self, name: str, message: str) -> None:
        self._output.write(Note(step=self._output.step, name=name, message=message))

    def _drop_old(self) -> None:
        if self._keep is None:
            return
        while len(self._names) > self._keep:
            path = os.path.join(self._folder, self._names.pop(0))
            beside = [path + ANALYSIS_SUFFIX, path + DRAWING_SUFFIX]
            beside += glob.glob(f"{glob.escape(path)}*.part")  # of processes that were stopped
            for old in (path, path.removesuffix(".gz"), *beside):
                if os.path.exists(old):
                    os.unlink(old)
