"""Reads a run's record files into sessions of typed records with numpy columns."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import groupby, pairwise
from typing import BinaryIO, TypeVar

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.errors import RecordError, UnreadableError
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.decode import read_record
from lightning_gpuprof.records.files import LOCAL, FileSystem, open_file, record_files
from lightning_gpuprof.records.phases import Phase

_R = TypeVar("_R")
_PHASES = frozenset(phase.value for phase in Phase)
_NEEDED = ("dur_ns", "start_ns")
"""Columns without which a window of steps cannot be used."""
_MOST_BYTES, _MOST_LINE, _MOST_WARNINGS = 1 << 30, 1 << 26, 100
"""Limits of a record file: its length, a line's length, and warnings about unreadable lines."""
_MOST_VALUE = 1 << 53
"""In ns 104 days; above it, JavaScript cannot hold every whole number."""
_Refuse = Callable[[int, str], None]
"""Called with a line's number and why it cannot be read."""


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
    if not fs.exists(run):
        raise RecordError(
            f"{run} does not exist. Pass the log dir of a run, such as lightning_logs/version_0."
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
        raise RecordError(
            f"{run} holds no records of lightning_gpuprof. Train with "
            "Trainer(callbacks=[GpuProfCallback()]) first, or pass the log dir of such a run."
        )
    ranks = {}
    for rank, path in files.items():
        name = os.path.basename(path)
        try:
            file = open_file(path, _MOST_BYTES) if fs is LOCAL else BytesIO(fs.read_bytes(path))
            with file:
                ranks[rank] = parse_records(rank, file, name=name)
        except OSError as error:
            warning = f"{name} cannot be read: {error.strerror or error}."
            ranks[rank] = RankRecords(rank, (), (warning,))
    return ranks


def parse_records(rank: int, file: BinaryIO, *, name: str) -> RankRecords:
    """Parse a record file.

    Lines that cannot be read, and sessions of another schema, are left out with a warning.
    """
    sessions: list[Session] = []
    warnings: list[str] = []
    numbered: list[tuple[int, schema.Record]] = []
    skipping, newer = False, ""

    def refuse(number: int, why: str) -> None:
        if len(warnings) < _MOST_WARNINGS:
            warnings.append(f"line {number} of {name} cannot be read: {why}.")

    for number, line in enumerate(iter(partial(file.readline, _MOST_LINE), b""), start=1):
        if line == b"\n":
            continue
        try:
            record = read_record(line)
        except UnreadableError as error:
            if line.endswith(b"\n"):
                refuse(number, str(error))
            else:
                warnings.append(
                    f"{name}: the last record is incomplete (the run was killed, or is being "
                    "written) and is left out."
                )
            continue
        if isinstance(record, schema.RunStart):
            _add_session(numbered, sessions, refuse)
            numbered = []
            reason = _unreadable(record)
            skipping = reason is not None
            if skipping:
                newer = f"{name}:{number}: {reason}"
                warnings.append(newer)
                continue
        if not skipping and (numbered or isinstance(record, schema.RunStart)):
            numbered.append((number, record))
    _add_session(numbered, sessions, refuse)
    return RankRecords(rank, tuple(sessions), tuple(warnings), newer)


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


def _add_session(
    numbered: list[tuple[int, schema.Record]], sessions: list[Session], refuse: _Refuse
) -> None:
    """Build a session from its records, which have their line numbers, and append it."""
    if not numbered:
        return
    start = numbered[0][1]
    assert isinstance(start, schema.RunStart)
    windows = [
        (number, record) for number, record in numbered if isinstance(record, schema.StepsWindow)
    ]
    others = tuple(record for _, record in numbered if not isinstance(record, schema.StepsWindow))
    warnings = []
    first_steps = [window.first_step for _, window in windows]
    if any(later <= earlier for earlier, later in pairwise(first_steps)):
        warnings.append(
            f"Session {start.session} mixes the steps of several runs, which wrote to this folder "
            "at the same time. Give every run a folder of its own: another version= of the "
            "logger, or GpuProfCallback(log_dir=...)."
        )
    refused = {number: reason for number, window in windows if (reason := _incomplete(window))}
    complete = [(number, window) for number, window in windows if number not in refused]
    columns = _join([window for _, window in complete])
    impossible = _impossible(columns, [window.count for _, window in complete]) if complete else {}
    refused |= {complete[index][0]: reason for index, reason in impossible.items()}
    for number, reason in sorted(refused.items()):
        refuse(number, reason)
    if impossible:
        columns = _join([window for number, window in complete if number not in refused])
    sessions.append(Session(start, others, columns, tuple(warnings)))


def _incomplete(window: schema.StepsWindow) -> str | None:
    """Return which column of a window is missing or too short, in words; None if none is."""
    for name in (*_NEEDED, *window.columns):
        column = window.columns.get(name)
        size = schema.ITEM_BYTES.get(column.dtype, 0) if column else 0
        if column is None or not size or len(column.data) != window.count * size:
            return f"{name} does not hold a value for every one of its {window.count} steps"
    return None


def _impossible(columns: dict[str, Int64], counts: list[int]) -> dict[int, str]:
    """Return the windows that hold values which no clock or counter gives, with the reason.

    A window is identified by its index in `counts`, which holds every window's number of steps.
    """
    window = np.repeat(np.arange(len(counts)), counts)
    start, dur = columns["start_ns"], columns["dur_ns"]
    backwards = np.zeros(len(start), dtype=np.bool_)
    backwards[1:] = (np.diff(start) < 0) & (np.diff(window) == 0)
    faults = [
        (dur <= 0, "a step took no time"),
        (backwards, "a step began before its predecessor"),
    ]
    for name, column in columns.items():
        least = -_MOST_VALUE if name.startswith(("device", "run_ahead")) else 0
        faults.append(((column < least) | (column > _MOST_VALUE), f"{name} is out of range"))
    # A window with several faults is refused for the first of them, which comes last here.
    return {
        index: reason
        for rows, reason in reversed(faults)
        for index in np.unique(window[rows]).tolist()
    }


def _join(windows: list[schema.StepsWindow]) -> dict[str, Int64]:
    names = dict.fromkeys(name for window in windows for name in window.columns)
    return {name: _join_column(name, windows) for name in names}


def _join_column(name: str, windows: list[schema.StepsWindow]) -> Int64:
    missing = schema.NOT_MEASURED if name.startswith(("device", "run_ahead")) else 0
    pieces: list[Int64] = []
    columns = [window.columns.get(name) for window in windows]
    dtypes = [None if column is None else column.dtype for column in columns]
    # Consecutive columns of the same type are joined as bytes and unpacked together: unpacking
    # every window's column by itself would take most of the time of reading a million steps.
    for dtype, indices in groupby(range(len(windows)), key=dtypes.__getitem__):
        if dtype is None:
            count = sum(windows[index].count for index in indices)
            pieces.append(np.full(count, missing, dtype=np.int64))
        else:
            data = b"".join([column.data for index in indices if (column := columns[index])])
            pieces.append(schema.Column(dtype, data).unpack())
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
