"""Reads a run's record files into sessions of typed records with numpy columns.

A file is only appended to while its run trains, so a reader that is kept reads what was added.
"""

import os
import shlex
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import BinaryIO, TypeVar

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.errors import RecordError, UnreadableError
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.decode import read_record
from lightning_gpuprof.records.files import (
    LOCAL,
    FileSystem,
    newest_trace,
    open_file,
    record_files,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.step_columns import NumberedWindow, Refuse, StepColumns

_R = TypeVar("_R")
_PHASES = frozenset(phase.value for phase in Phase)
_MOST_BYTES, _MOST_LINE, _MOST_WARNINGS = 1 << 30, 1 << 26, 100
"""Limits of a record file: its length, a line's length, and warnings about unreadable lines."""
_TAIL_BYTES = 256
"""What was read last, by which a file is known to have been appended to. It holds times."""


@dataclass(frozen=True)
class Session:
    """A rank's records of a fit, validate, test or predict call.

    `columns` holds, for every column name of `StepsWindow`, an int64 for every step in step order.
    Windows that lack a column are filled with 0 (host) or `NOT_MEASURED` (device).
    """

    start: schema.RunStart
    records: tuple[schema.Record, ...]
    columns: dict[str, Int64]
    warnings: tuple[str, ...] = ()

    @property
    def end(self) -> schema.RunEnd | None:
        """The closing record; None while the run is live or if it was killed."""
        ends = self.all(schema.RunEnd)
        return ends[-1] if ends else None

    @property
    def steps(self) -> int:
        """Number of recorded steps."""
        return len(self.columns["dur_ns"]) if "dur_ns" in self.columns else 0

    def all(self, kind: type[_R]) -> list[_R]:
        """Return the records of a type in the order in which they were written."""
        return [record for record in self.records if isinstance(record, kind)]

    def last(self, kind: type[_R]) -> _R | None:
        """Return the last record of a type; None if there is none."""
        return next((record for record in reversed(self.records) if isinstance(record, kind)), None)

    def phase_ns(self, phase: Phase) -> Int64 | None:
        """Return the host self time of a phase in every step; None if it was not measured."""
        if phase.value not in self.start.phases or not self.steps:
            return None
        zeros = np.zeros(self.steps, dtype=np.int64)
        return self.columns.get(f"phase/{phase.value}", zeros)

    def phases_ns(self, phases: Iterable[Phase]) -> dict[Phase, Int64]:
        """Return `phase_ns` for the given phases, without the phases that were not measured."""
        columns = {phase: self.phase_ns(phase) for phase in phases}
        return {phase: column for phase, column in columns.items() if column is not None}


@dataclass(frozen=True)
class RankRecords:
    """All sessions of a rank's record file."""

    rank: int
    sessions: tuple[Session, ...]
    warnings: tuple[str, ...]
    newer: str = ""
    """A warning about a session that only another version can read; empty if there is none."""


def read_run(run: str, fs: FileSystem = LOCAL) -> dict[int, RankRecords]:
    """Read the record files of all ranks of a run.

    Raises:
        RecordError: The run does not exist, is not a folder, or holds no record files.
    """
    return RunReader(run, fs).read()


def parse_records(rank: int, file: BinaryIO, *, name: str) -> RankRecords:
    """Parse a record file.

    Lines that cannot be read, and sessions of another schema, are left out with a warning.
    """
    return RecordFile(rank, name).read(file)


class RunReader:
    """Reads the record files of a run, and later what was added to them.

    It can be called by several threads.

    Args:
        run: The run's log dir.
        fs: Where that is.
    """

    def __init__(self, run: str, fs: FileSystem = LOCAL) -> None:
        self._run, self._fs = run, fs
        self._lock = threading.Lock()
        self._files: dict[int, RecordFile] = {}
        self._states: dict[int, object] = {}
        self._records: dict[int, RankRecords] = {}

    @property
    def num_bytes(self) -> int:
        """About how much memory the records take."""
        return sum(file.num_bytes for file in list(self._files.values()))

    def read(self) -> dict[int, RankRecords]:
        """Return every rank's records, of which only what was added since the last call is read.

        Raises:
            RecordError: As for `read_run`.
        """
        with self._lock:
            files = self._existing()
            for rank in self._records.keys() - files.keys():
                del self._files[rank], self._states[rank], self._records[rank]
            for rank, path in files.items():
                state = self._state(path)
                if state is None or state != self._states.get(rank):
                    self._states[rank] = state
                    self._read_rank(rank, path)
            return {rank: self._records[rank] for rank in files}

    def _existing(self) -> dict[int, str]:
        run, fs = self._run, self._fs
        if not fs.exists(run):
            raise RecordError(
                f"{run} does not exist. Pass the log dir of a run, such as "
                "lightning_logs/version_0."
            )
        if fs is LOCAL and os.path.isfile(run):
            raise RecordError(
                f"{run} is a file. Pass a run's log dir, such as lightning_logs/version_0; a trace "
                f"is read by `lightning-gpuprof analyze`."
            )
        files = record_files(run, fs)
        if not files:
            if fs is LOCAL:
                os.listdir(run)  # raises if the folder may not be read
                if (trace := newest_trace(run)) is not None:
                    raise RecordError(
                        f"{run} holds traces, but no records of lightning_gpuprof. Read the newest "
                        f"with: lightning-gpuprof analyze {shlex.quote(trace)}"
                    )
            raise RecordError(
                f"{run} holds no records of lightning_gpuprof. Train with "
                "Trainer(callbacks=[GpuProfCallback()]) first, or pass the log dir of such a run."
            )
        return files

    def _state(self, path: str) -> object:
        """Return what changes when a file does; None if that is not known."""
        with suppress(OSError):
            if self._fs is not LOCAL:
                return self._fs.size(path)
            stat = os.stat(path)
            return stat.st_size, stat.st_mtime_ns, stat.st_ino
        return None

    def _read_rank(self, rank: int, path: str) -> None:
        name = os.path.basename(path)
        record_file = self._files.setdefault(rank, RecordFile(rank, name))
        try:
            is_local = self._fs is LOCAL
            file = open_file(path, _MOST_BYTES) if is_local else BytesIO(self._fs.read_bytes(path))
            with file:
                self._records[rank] = record_file.read(file)
        except OSError as error:
            warning = f"{name} cannot be read: {error.strerror or error}."
            self._records[rank] = RankRecords(rank, (), (warning,))
            self._states[rank] = None


class RecordFile:
    """A rank's record file, which can be read on from where it was read to.

    Args:
        rank: The rank.
        name: The file's name, for warnings.
    """

    def __init__(self, rank: int, name: str) -> None:
        self._rank, self._name = rank, name
        self._begin()

    def _begin(self) -> None:
        self._position, self._number, self._tail = 0, 0, b""
        self._whole: list[Session] = []
        self._columns: list[StepColumns] = []
        self._other_bytes = 0
        self._open: _OpenSession | None = None
        self._newer = ""
        self._refused: list[tuple[int, str]] = []

    @property
    def num_bytes(self) -> int:
        """About how much memory the records take: that of the columns, and the rest's length."""
        return self._other_bytes + sum(columns.num_bytes for columns in self._columns)

    def read(self, file: BinaryIO) -> RankRecords:
        """Read what was added since the last call; all of it if the file is another one."""
        file.seek(max(0, self._position - len(self._tail)))
        if file.read(len(self._tail)) != self._tail:
            self._begin()
            file.seek(0)
        incomplete = ""
        for line in iter(partial(file.readline, _MOST_LINE), b""):
            if not self._read_line(line):
                incomplete = (
                    f"{self._name}: the last record is incomplete (the run was killed, or is being "
                    "written) and is left out."
                )
                break
            self._position += len(line)
            self._tail = (self._tail + line[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        sessions = list(self._whole)
        if self._open is not None:
            sessions.append(self._open.session(self._refuse))
        warnings = [text for _, text in sorted(self._refused, key=lambda refused: refused[0])]
        warnings += [incomplete] if incomplete else []
        return RankRecords(self._rank, tuple(sessions), tuple(warnings), self._newer)

    def _refuse(self, number: int, why: str) -> None:
        if len(self._refused) < _MOST_WARNINGS:
            text = f"line {number} of {self._name} cannot be read: {why}."
            self._refused.append((number, text))

    def _read_line(self, line: bytes) -> bool:
        """Read the next line; return whether it is complete."""
        # A line that was read without its end may get it later.
        begins = not self._tail or self._tail.endswith(b"\n")
        self._number += begins or line != b"\n"
        if line == b"\n":
            return True
        try:
            record = read_record(line)
        except UnreadableError as error:
            if not line.endswith(b"\n") and len(line) < _MOST_LINE:
                self._number -= 1
                return False
            self._refuse(self._number, str(error))
            return True
        if isinstance(record, schema.RunStart):
            self._begin_session(record)
        elif self._open is not None:
            self._open.add(self._number, record)
        if self._open is not None and not isinstance(record, schema.StepsWindow):
            self._other_bytes += len(line)
        return True

    def _begin_session(self, start: schema.RunStart) -> None:
        if self._open is not None:
            self._whole.append(self._open.session(self._refuse))
            self._open = None
        reason = _unreadable(start)
        if reason is not None:
            self._newer = f"{self._name}:{self._number}: {reason}"
            self._refused.append((self._number, self._newer))
            return
        self._open = _OpenSession(start)
        self._columns.append(self._open.columns)


class _OpenSession:
    """A session of which lines may follow."""

    def __init__(self, start: schema.RunStart) -> None:
        self.columns = StepColumns()
        self._start = start
        self._records: list[schema.Record] = [start]
        self._windows: list[NumberedWindow] = []

    def add(self, number: int, record: schema.Record) -> None:
        """Add a record with the number of its line."""
        if isinstance(record, schema.StepsWindow):
            self._windows.append((number, record))
        else:
            self._records.append(record)

    def session(self, refuse: Refuse) -> Session:
        """Return the session so far."""
        windows, self._windows = self._windows, []
        self.columns.append(windows, refuse)
        warnings = []
        if self.columns.mixes_runs:
            warnings.append(
                f"Session {self._start.session} mixes the steps of several runs, which wrote to "
                "this folder at the same time. Give every run a folder of its own: another "
                "version= of the logger, or GpuProfCallback(log_dir=...)."
            )
        records = tuple(self._records)
        return Session(self._start, records, self.columns.arrays(), tuple(warnings))


def _unreadable(start: schema.RunStart) -> str | None:
    """Return why only another version can read a session; None if this version can."""
    if start.schema_version != schema.SCHEMA_VERSION:
        newer = start.schema_version > schema.SCHEMA_VERSION
        change = "Upgrade lightning-gpuprof" if newer else "Train again"
        written = f"written with record schema {start.schema_version}"
        return f"{written}; this version reads {schema.SCHEMA_VERSION}. {change} to see it."
    if unknown := [phase for phase in start.phases if phase not in _PHASES]:
        phases = ", ".join(unknown)
        return f"it times phases that this version does not know ({phases}). Upgrade " + (
            "lightning-gpuprof to see it."
        )
    return None
