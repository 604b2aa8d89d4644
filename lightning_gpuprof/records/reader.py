"""Reads a run's record files into sessions of typed records with numpy columns.

A file is only appended to while its run trains, so a reader that is kept reads what was added.
"""

import os
import shlex
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import BinaryIO

from lightning_gpuprof.errors import RecordError, UnreadableError
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.decode import (
    MOST_LINE_BYTES,
    RefusedLines,
    read_record,
    unreadable_start,
)
from lightning_gpuprof.records.files import (
    LOCAL,
    FileSystem,
    newest_trace,
    open_file,
    record_files,
)
from lightning_gpuprof.records.rolled_run import RolledRun
from lightning_gpuprof.records.session import RankRecords, Session
from lightning_gpuprof.records.step_columns import NumberedWindow, Refuse, StepColumns

__all__ = ["RankRecords", "RecordFile", "RunReader", "Session", "parse_records", "read_run"]

MOST_RAW_BYTES, FEW_RANKS, MORE_OF_FEW = 1 << 25, 16, 2
"""If the record files of several ranks are longer in all, only the lowest rank's steps are all read
(see `rolled.py`); those of few ranks may be so many times as long. A step takes some 100 bytes."""
_MOST_BYTES = 1 << 30
"""Limits of a record file: its length, a line's length, and warnings about unreadable lines."""
_TAIL_BYTES = 256
"""What was read last, by which a file is known to have been appended to. It holds times."""


def read_run(
    run: str, fs: FileSystem = LOCAL, *, until: int | None = None
) -> dict[int, RankRecords]:
    """Read the record files of all ranks of a run; see `RunReader.read`.

    Raises:
        RecordError: The run does not exist, is not a folder, or holds no record files.
    """
    return RunReader(run, fs, until=until).read()


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
        until: The last step by which ranks are compared, if their records are long; by default the
            last that all of them have.
        most_raw_bytes: How long record files are of which all steps of all ranks are read.
    """

    def __init__(
        self,
        run: str,
        fs: FileSystem = LOCAL,
        *,
        until: int | None = None,
        most_raw_bytes: int = MOST_RAW_BYTES,
    ) -> None:
        self._run, self._fs, self._until = run, fs, until
        self._most_raw_bytes = most_raw_bytes
        self._lock = threading.Lock()
        self._files: dict[int, RecordFile] = {}
        self._states: dict[int, object] = {}
        self._records: dict[int, RankRecords] = {}
        self._rolled: RolledRun | None = None

    @property
    def num_bytes(self) -> int:
        """About how much memory the records take."""
        rolled = self._rolled
        raw_bytes = sum(file.num_bytes for file in list(self._files.values()))
        return raw_bytes + (rolled.num_bytes if rolled is not None else 0)

    def read(self) -> dict[int, RankRecords]:
        """Return every rank's records, of which only what was added since the last call is read.

        If they are long, the sessions of all ranks but the lowest hold a `rollup` and the steps
        that ranks are compared by; `whole` reads such a rank.

        Raises:
            RecordError: As for `read_run`.
        """
        with self._lock:
            files = self._existing()
            most_bytes = self._most_raw_bytes * (MORE_OF_FEW if len(files) <= FEW_RANKS else 1)
            if len(files) > 1 and self._length(files) > most_bytes:
                return self._read_rolled(files)
            self._rolled = None
            return self._read_raw(files)

    def whole(self, rank: int) -> RankRecords:
        """Return a rank's records with all steps, which are read each time."""
        reader = RunReader(self._run, self._fs)
        return reader._read_raw({rank: self._existing()[rank]})[rank]

    def _read_raw(self, files: Mapping[int, str]) -> dict[int, RankRecords]:
        for rank in self._records.keys() - files.keys():
            del self._files[rank], self._states[rank], self._records[rank]
        for rank, path in files.items():
            state = self._state(path)
            if state is None or state != self._states.get(rank):
                self._states[rank] = state
                self._read_rank(rank, path)
        return {rank: self._records[rank] for rank in files}

    def _read_rolled(self, files: Mapping[int, str]) -> dict[int, RankRecords]:
        self._rolled = self._rolled or RolledRun(self._fs, self._until)
        states = {rank: self._state(path) for rank, path in files.items()}
        records = self._rolled.read(files, states)
        lowest = next((rank for rank in files if records[rank].sessions), min(files))
        raw = self._read_raw({lowest: files[lowest]})[lowest]
        # Both are the same sessions in the same order, unless a line has been added meanwhile.
        sessions = [
            replace(session, rolled=rolled)
            for session, rolled in zip(raw.sessions, records[lowest].sessions, strict=False)
        ]
        return {
            **records,
            lowest: replace(raw, sessions=(*sessions, *raw.sessions[len(sessions) :])),
        }

    def _length(self, files: Mapping[int, str]) -> int:
        length = 0
        for path in files.values():
            with suppress(OSError):
                length += self._fs.size(path)
        return length

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
        self._refused = RefusedLines(self._name)

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
        is_incomplete = False
        for line in iter(partial(file.readline, MOST_LINE_BYTES), b""):
            if not self._read_line(line):
                is_incomplete = True
                break
            self._position += len(line)
            self._tail = (self._tail + line[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        sessions = list(self._whole)
        if self._open is not None:
            sessions.append(self._open.session(self._refused.refuse))
        warnings = self._refused.warnings(is_incomplete=is_incomplete)
        return RankRecords(self._rank, tuple(sessions), warnings, self._newer)

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
            if not line.endswith(b"\n") and len(line) < MOST_LINE_BYTES:
                self._number -= 1
                return False
            self._refused.refuse(self._number, str(error))
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
            self._whole.append(self._open.session(self._refused.refuse))
            self._open = None
        reason = unreadable_start(start)
        if reason is not None:
            self._newer = self._refused.note_start(self._number, reason)
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
