"""Exports the trace of a cycle, compresses it and writes its record. Readers analyse it later."""

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from lightning_gpuprof.adapters.profiler import TorchTrace
from lightning_gpuprof.capture.cycles import FinishedCycle
from lightning_gpuprof.records.files import (
    plugin_dir,
    trace_name,
    written_whole,
)
from lightning_gpuprof.records.schema import ProfilerCycle
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.units import size

try:
    _GzipFile: Any = import_module("isal.igzip").IGzipFile
except ImportError:  # the extra `fast` is not installed: zlib does the same, slower
    _GzipFile = gzip.GzipFile

_LEVEL = 1
"""With isal, the compression takes a tenth of the time in which torch stops and exports, so that a
thread beside training would gain nothing. Files are 1.7 times as large as the smallest that zlib
can make."""
_CHUNK_BYTES = 1 << 20
FIRST_BYTES = 64 << 20
"""The free space that a first trace needs. Every later trace needs the size of the trace before
it."""


class TraceFiles:
    """Writes the traces of a rank in a session.

    Args:
        context: The session.
        compressed: Whether the files are compressed.
        quiet: Whether validation, checkpoints and other callbacks are left out of the traces.
        free_bytes: Returns the free space of a folder; tests pass a fake.
    """

    def __init__(
        self,
        context: RunContext,
        *,
        compressed: bool = True,
        quiet: bool = False,
        free_bytes: Callable[[str], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._context = context
        self._compressed = compressed
        self._quiet = quiet
        self._free_bytes = free_bytes
        self._needed_bytes = FIRST_BYTES
        self._folder = plugin_dir(context.run_dir)

    def obstacle(self) -> str | None:
        """Return why no trace can be written now, or None."""
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
        """Return the size of a recording's file, which is removed again; 0 if it is unknown."""
        plain = os.path.join(self._folder, f"rank{self._context.rank}-step")
        with suppress(OSError), self._exported(trace, plain) as part:
            return os.path.getsize(part)
        return 0

    def save(self, finished: FinishedCycle) -> ProfilerCycle:
        """Write the file and the record of a cycle, and return the record.

        Raises OSError, or RuntimeError from torch.
        """
        rank, session = self._context.rank, self._context.session
        name = trace_name(rank, session, finished.cycle, finished.capture)
        plain = os.path.join(self._folder, name.removesuffix(".gz"))
        begun_ns = time.perf_counter_ns()
        with self._exported(finished.trace, plain) as part:
            plain_bytes = self._needed_bytes = os.path.getsize(part)
            path = put_in_place(part, plain, compressed=self._compressed)
        record = ProfilerCycle(
            cycle=finished.cycle,
            first_step=finished.first_step,
            last_step=finished.last_step,
            trace_file=os.path.basename(path),
            stop_ns=finished.stop_ns,
            export_ns=time.perf_counter_ns() - begun_ns,
            trace_bytes=plain_bytes,
            quiet=self._quiet,
            capture=finished.capture,
        )
        self._context.write(record)
        self._context.flush()
        return record

    @contextmanager
    def _exported(self, trace: TorchTrace, plain: str) -> Iterator[str]:
        """Export a trace to a temporary file, which is removed at the end if it still exists.

        The file is not written under its final name, since readers would take it for complete.
        """
        os.makedirs(self._folder, exist_ok=True)
        part = f"{plain}.{os.getpid()}.part"
        try:
            trace.export(part)
            if not os.path.exists(part):  # Kineto raises no errors, it only prints them
                raise OSError(f"torch.profiler wrote no file to {self._folder}. Is the disk full?")
            yield part
        finally:
            for path in (part, f"{part}.tmp"):  # Kineto writes to the latter and then renames it
                with suppress(OSError):
                    os.unlink(path)


def put_in_place(part: str, plain: str, *, compressed: bool) -> str:
    """Turn an exported file into the trace `<plain>.gz` or `plain`, and return its path.

    On a disk without space for both files, the trace stays uncompressed.
    """
    if compressed:
        with suppress(OSError):
            return _compressed(part, f"{plain}.gz")
    os.replace(part, plain)
    return plain


def _compressed(source_path: str, path: str) -> str:
    with (
        open(source_path, "rb") as source,
        written_whole(path) as part,
        open(part, "wb") as target,
        # Without a name and a time inside, the same trace gives the same bytes.
        _GzipFile("", "wb", _LEVEL, target, mtime=0) as stream,
    ):
        shutil.copyfileobj(source, stream, _CHUNK_BYTES)
    return path
