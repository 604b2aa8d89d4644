"""Reads a run's record files back: sessions of typed records with numpy columns."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeVar

import msgspec
import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.files import LOCAL, FileSystem, record_files
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import (
    ITEM_BYTES,
    NOT_MEASURED,
    SCHEMA_VERSION,
    Column,
    Record,
    RunEnd,
    RunStart,
    StepsWindow,
)

_R = TypeVar("_R")
_DECODER = msgspec.json.Decoder(Record)
_PHASES = frozenset(phase.value for phase in Phase)
_NEEDED = ("dur_ns", "start_ns")
"""Columns without which a window of steps says nothing."""


@dataclass(frozen=True)
class Session:
    """One fit, validate, test or predict call of one rank.

    `columns` hold one int64 per step, in step order, for every column name of `StepsWindow`;
    a column that some windows lack is filled with 0 (host) or `NOT_MEASURED` (device).
    """

    start: RunStart
    records: tuple[Record, ...]
    columns: dict[str, Int64]
    warnings: tuple[str, ...] = ()

    @property
    def end(self) -> RunEnd | None:
        """The closing record, absent while the run is live or where it was killed."""
        ends = self.all(RunEnd)
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
    """Read every rank's records of a run.

    Args:
        run: The run's log dir (or its `plugins/gpuprof` folder).
        fs: Where it lies.

    Returns:
        By rank; ranks without a whole session are left out.

    Raises:
        RecordError: There is no such folder, or it holds no records.
        OSError: It cannot be read.
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
            os.listdir(run)  # raises where the folder may not be read
        raise RecordError(
            f"{run} holds no records of lightning_gpuprof. Train with "
            "Trainer(callbacks=[GpuProfCallback()]) first, or pass the log dir of such a run."
        )
    ranks = {}
    for rank, path in files.items():
        ranks[rank] = parse_records(rank, fs.read_bytes(path), name=os.path.basename(path))
    return ranks


def parse_records(rank: int, data: bytes, *, name: str) -> RankRecords:
    """Parse one record file's content; lines that cannot be read are skipped, with a warning.

    A session of another schema is left out, with a warning.
    """
    sessions: list[Session] = []
    warnings: list[str] = []
    begun: list[Record] = []
    skipping, newer = False, ""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            record = _DECODER.decode(line)
        except msgspec.MsgspecError as error:
            if number == len(lines):
                warnings.append(
                    f"{name}: the last line is torn (the run was killed or is being "
                    "written); it is skipped."
                )
            else:
                warnings.append(f"{name}:{number}: not a record, skipped ({error}).")
            continue
        if isinstance(record, RunStart):
            _close(begun, sessions)
            begun = []
            reason = _unreadable(record)
            skipping = reason is not None
            if skipping:
                newer = f"{name}:{number}: {reason}"
                warnings.append(newer)
                continue
        if not skipping and (begun or isinstance(record, RunStart)):
            begun.append(record)
    _close(begun, sessions)
    return RankRecords(rank, tuple(sessions), tuple(warnings), newer)


def _unreadable(start: RunStart) -> str | None:
    """Say why only another version can read a session; None where this one can."""
    if start.schema_version != SCHEMA_VERSION:
        change = (
            "Upgrade lightning-gpuprof" if start.schema_version > SCHEMA_VERSION else "Train again"
        )
        written = f"written with record schema {start.schema_version}"
        return f"{written}; this version reads {SCHEMA_VERSION}. {change} to see it."
    if unknown := [phase for phase in start.phases if phase not in _PHASES]:
        phases = ", ".join(unknown)
        return f"it times phases that this version does not know ({phases}). Upgrade " + (
            "lightning-gpuprof to see it."
        )
    return None


def _close(records: list[Record], sessions: list[Session]) -> None:
    if not records:
        return
    start = records[0]
    assert isinstance(start, RunStart)
    windows = [record for record in records if isinstance(record, StepsWindow)]
    others = tuple(record for record in records if not isinstance(record, StepsWindow))
    whole = [window for window in windows if _is_whole(window)]
    warnings = []
    if len(whole) < len(windows):
        warnings.append(
            f"{len(windows) - len(whole)} of {len(windows)} windows of steps lack columns or "
            "values that every reader needs (damaged, or written by another version); they are "
            "left out."
        )
    if any(later.first_step <= one.first_step for one, later in pairwise(windows)):
        warnings.append(
            f"Session {start.session} holds the steps of several runs, mixed: they wrote to this "
            "folder at the same time. Give each its own: another version= of the logger, or "
            "GpuProfCallback(log_dir=...)."
        )
    sessions.append(Session(start, others, _join(whole), tuple(warnings)))


def _is_whole(window: StepsWindow) -> bool:
    columns = window.columns
    return all(name in columns for name in _NEEDED) and all(
        column.dtype in ITEM_BYTES and len(column.data) == window.count * ITEM_BYTES[column.dtype]
        for column in columns.values()
    )


def _join(windows: list[StepsWindow]) -> dict[str, Int64]:
    names = dict.fromkeys(name for window in windows for name in window.columns)
    return {name: _joined(name, windows) for name in names}


def _joined(name: str, windows: list[StepsWindow]) -> Int64:
    missing = NOT_MEASURED if name.startswith(("device", "run_ahead")) else 0
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
            parts.append(Column(dtype, data).unpack())
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
