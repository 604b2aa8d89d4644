"""Exports a cycle's trace, compresses it and keeps its record; the analysis is the readers'."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from lightning_gpuprof.adapters.profiler import TorchTrace
from lightning_gpuprof.capture.cycles import Recorded
from lightning_gpuprof.records.files import (
    plugin_dir,
    trace_name,
    written_whole,
)
from lightning_gpuprof.records.schema import ProfilerCycle
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.units import size

try:
    igzip: Any = import_module("isal.igzip")
except ImportError:  # where no wheel of isal fits: traces are left plain
    igzip = None

_LEVEL = 1
"""In a tenth of the time that torch takes to stop and export; 1.7 times zlib's smallest size:
a thread beside training would be no gain."""
_CHUNK_BYTES = 1 << 20
FIRST_BYTES = 64 << 20
"""Free space for a first trace; a later one needs the size of the one before."""


class TraceFiles:
    """One rank's traces of one session, compressed unless `packed` is False.

    `quiet`: they hold no validation, checkpoints and other callbacks.
    """

    def __init__(
        self,
        context: RunContext,
        *,
        packed: bool = True,
        quiet: bool = False,
        free_bytes: Callable[[str], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._context = context
        self._packed, self._quiet = packed, quiet
        self._free_bytes = free_bytes
        self._needed_bytes = FIRST_BYTES
        self._folder = plugin_dir(context.run_dir)

    def why_not(self) -> str | None:
        """Say why no trace can be written now, or return None: asked before a window."""
        try:
            self._folder.encode()
            os.makedirs(self._folder, exist_ok=True)
            free = self._free_bytes(self._folder)
        except UnicodeEncodeError:
            return f"torch.profiler cannot write to {self._folder!a}, which is not UTF-8"
        except OSError as error:
            return str(error)
        if free < self._needed_bytes:
            needed = size(self._needed_bytes)
            return f"{self._folder} has {size(free)} free, and a trace may need {needed}"
        return None

    def size_of(self, trace: TorchTrace) -> int:
        """Return how large a recording's file would be, of which none stays; 0 where unknown."""
        plain = os.path.join(self._folder, f"rank{self._context.rank}-step")
        with suppress(OSError), self._exported(trace, plain) as part:
            return os.path.getsize(part)
        return 0

    def save(self, recorded: Recorded) -> int:
        """Write a recording's file and record; raises OSError or torch's RuntimeError.

        Returns the file's bytes before compression.
        """
        packed = trace_name(self._context.rank, self._context.session, recorded.cycle)
        plain = os.path.join(self._folder, packed.removesuffix(".gz"))
        begun = time.perf_counter_ns()
        with self._exported(recorded.trace, plain) as part:
            plain_bytes = self._needed_bytes = os.path.getsize(part)
            path = put_in_place(part, plain, packed=self._packed)
        self._context.write(
            ProfilerCycle(
                cycle=recorded.cycle,
                first_step=recorded.first_step,
                last_step=recorded.last_step,
                trace_file=os.path.basename(path),
                stop_ns=recorded.stop_ns,
                export_ns=time.perf_counter_ns() - begun,
                trace_bytes=plain_bytes,
                quiet=self._quiet,
            )
        )
        self._context.flush()
        return plain_bytes

    @contextmanager
    def _exported(self, trace: TorchTrace, plain: str) -> Iterator[str]:
        os.makedirs(self._folder, exist_ok=True)
        # Readers take a file of a trace's name for a whole trace.
        part = f"{plain}.{os.getpid()}.part"
        try:
            trace.export(part)
            if not os.path.exists(part):  # Kineto prints its errors and goes on
                raise OSError(f"torch.profiler left no file in {self._folder}; is the disk full?")
            yield part
        finally:
            for left in (part, f"{part}.tmp"):  # Kineto writes to the second, then renames it
                with suppress(OSError):
                    os.unlink(left)


def put_in_place(part: str, plain: str, *, packed: bool) -> str:
    """Make an exported file the trace `<plain>.gz`, or `plain`; returns the name.

    Without isal, or on a disk without room for both, the trace stays plain.
    """
    if packed and igzip is not None:
        with suppress(OSError):
            return _compressed(part, f"{plain}.gz")
    os.replace(part, plain)
    return plain


def _compressed(source_path: str, path: str) -> str:
    with (
        open(source_path, "rb") as source,
        written_whole(path) as part,
        open(part, "wb") as target,
        # No name and no time inside: the same trace gives the same bytes.
        igzip.IGzipFile("", "wb", _LEVEL, target, mtime=0) as stream,
    ):
        shutil.copyfileobj(source, stream, _CHUNK_BYTES)
    return path
