"""Reads a run's record files back: sessions of typed records with numpy columns."""

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
"""Columns without which a window of steps says nothing."""
_MOST_BYTES, _MOST_LINE, _MOST_WARNINGS = 1 << 30, 1 << 26, 100
"""Of a record file: its length, that of a line, and lines that are named as unreadable."""
_MOST_VALUE = 1 << 53
"""Of ns, 104 days; a browser holds whole numbers as far as this."""
_Refuse = Callable[[int, str], None]
"""Notes why a line cannot be read."""


@dataclass(frozen=True)
class Session:
    """One fit, validate, test or predict call of one rank.

    `columns` hold one int64 per step, in step order, for every column name of `StepsWindow`;
    a column that some windows lack is filled with 0 (host) or `NOT_MEASURED` (device).
    """

    start: schema.RunStart
    records: tuple[schema.Record, ...]
    columns: dict[str, Int64]
    warnings: tuple[str, ...] = ()

    @property
    def end(self) -> schema.RunEnd | None:
        """The closing record, absent while the run is live or where it was killed."""
        ends = self.all(schema.RunEnd)
        return ends[-1] if ends else None

    @property
    def steps(self) -> int:
        """Number of recorded steps."""
        return len(self.columns["dur_ns"]) if "dur_ns" in self.columns else 0

    def all(self, kind: type[_R]) -> list[_R]:
        """Return the records of one type, in the order written."""
        return [record for record in self.records if isinstance(record, kind)]

    def last(self, kind: type[_R]) -> _R | None:
        """Return the last record of a type; None without one."""
        return next((one for one in reversed(self.records) if isinstance(one, kind)), None)

    def phase_ns(self, phase: Phase) -> Int64 | None:
        """Return the host self time of a phase for each step, or None where not measured."""
        if phase.value not in self.start.phases or not self.steps:
            return None
        zeros = np.zeros(self.steps, dtype=np.int64)
        return self.columns.get(f"phase/{phase.value}", zeros)

    def phases_ns(self, phases: Iterable[Phase]) -> dict[Phase, Int64]:
        """Return `phase_ns` of those of some phases that were measured."""
        return {p: column for p in phases if (column := self.phase_ns(p)) is not None}


@dataclass(frozen=True)
class RankRecords:
    """All sessions of one rank's record file."""

    rank: int
    sessions: tuple[Session, ...]
    warnings: tuple[str, ...]
    newer: str = ""
    """A warning about a session that only another version can read; empty where there is none."""


def read_run(run: str, fs: FileSystem = LOCAL) -> dict[int, RankRecords]:
    """Read every rank's records of a run."""
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
            os.listdir(run)  # raises where the folder may not be read
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
            said = f"{name} cannot be read: {error.strerror or error}."
            ranks[rank] = RankRecords(rank, (), (said,))
    return ranks


def parse_records(rank: int, file: BinaryIO, *, name: str) -> RankRecords:
    """Parse one record file; lines that cannot be read are left out, with a warning.

    A session of another schema is left out, with a warning.
    """
    sessions: list[Session] = []
    warnings: list[str] = []
    begun: list[tuple[int, schema.Record]] = []
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
                    f"{name}: the last line is torn (the run was killed or is being "
                    "written); it is skipped."
                )
            continue
        if isinstance(record, schema.RunStart):
            _close(begun, sessions, refuse)
            begun = []
            reason = _unreadable(record)
            skipping = reason is not None
            if skipping:
                newer = f"{name}:{number}: {reason}"
                warnings.append(newer)
                continue
        if not skipping and (begun or isinstance(record, schema.RunStart)):
            begun.append((number, record))
    _close(begun, sessions, refuse)
    return RankRecords(rank, tuple(sessions), tuple(warnings), newer)


def _unreadable(start: schema.RunStart) -> str | None:
    """Say why only another version can read a session; None where this one can."""
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


def _close(
    numbered: list[tuple[int, schema.Record]], sessions: list[Session], refuse: _Refuse
) -> None:
    if not numbered:
        return
    start = numbered[0][1]
    assert isinstance(start, schema.RunStart)
    windows = [(number, one) for number, one in numbered if isinstance(one, schema.StepsWindow)]
    others = tuple(one for _, one in numbered if not isinstance(one, schema.StepsWindow))
    warnings = []
    if any(later.first_step <= one.first_step for (_, one), (_, later) in pairwise(windows)):
        warnings.append(
            f"Session {start.session} holds the steps of several runs, mixed: they wrote to this "
            "folder at the same time. Give each its own: another version= of the logger, or "
            "GpuProfCallback(log_dir=...)."
        )
    wrong = {number: why for number, one in windows if (why := _lacking(one))}
    sound = [(number, one) for number, one in windows if number not in wrong]
    columns = _join([one for _, one in sound])
    odd = _odd(columns, [one.count for _, one in sound]) if sound else {}
    wrong |= {sound[at][0]: why for at, why in odd.items()}
    for number, why in sorted(wrong.items()):
        refuse(number, why)
    if odd:
        columns = _join([one for number, one in sound if number not in wrong])
    sessions.append(Session(start, others, columns, tuple(warnings)))


def _lacking(window: schema.StepsWindow) -> str | None:
    """Say which column of a window is missing or not whole; None where none is."""
    for name in (*_NEEDED, *window.columns):
        column = window.columns.get(name)
        size = schema.ITEM_BYTES.get(column.dtype, 0) if column else 0
        if column is None or not size or len(column.data) != window.count * size:
            return f"{name} does not hold a value for each of its {window.count} steps"
    return None


def _odd(columns: dict[str, Int64], counts: list[int]) -> dict[int, str]:
    """Return why windows, by place, hold values that no clock and no counter gives."""
    window = np.repeat(np.arange(len(counts)), counts)
    start, dur = columns["start_ns"], columns["dur_ns"]
    back = np.zeros(len(start), dtype=np.bool_)
    back[1:] = (np.diff(start) < 0) & (np.diff(window) == 0)
    found = [(dur <= 0, "a step took no time"), (back, "a step began before the one before it")]
    for name, column in columns.items():
        least = -_MOST_VALUE if name.startswith(("device", "run_ahead")) else 0
        found.append(((column < least) | (column > _MOST_VALUE), f"{name} is out of range"))
    return {at: why for rows, why in reversed(found) for at in np.unique(window[rows]).tolist()}


def _join(windows: list[schema.StepsWindow]) -> dict[str, Int64]:
    names = dict.fromkeys(name for window in windows for name in window.columns)
    return {name: _joined(name, windows) for name in names}


def _joined(name: str, windows: list[schema.StepsWindow]) -> Int64:
    missing = schema.NOT_MEASURED if name.startswith(("device", "run_ahead")) else 0
    parts: list[Int64] = []
    columns = [window.columns.get(name) for window in windows]
    dtypes = [None if column is None else column.dtype for column in columns]
    # Runs of equal type are joined as bytes and unpacked once: one call per window and column
    # would be most of the time that a million steps take to read.
    for dtype, run in groupby(range(len(windows)), key=dtypes.__getitem__):
        if dtype is None:
            count = sum(windows[at].count for at in run)
            parts.append(np.full(count, missing, dtype=np.int64))
        else:
            data = b"".join([column.data for at in run if (column := columns[at])])
            parts.append(schema.Column(dtype, data).unpack())
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
