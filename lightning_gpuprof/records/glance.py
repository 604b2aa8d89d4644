"""The two ends of a record file, enough to list a run without reading it all."""

from dataclasses import dataclass

import msgspec

from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.records.schema import Record, RunEnd, RunStart, StepsWindow

_DECODER = msgspec.json.Decoder(Record)
_HEAD_BYTES = 2**16
_TAIL_BYTES = 2**18
"""Room for several windows, so that a whole `steps` line is among them."""


@dataclass(frozen=True)
class Glance:
    """The ends of one record file.

    Args:
        start: The first session's start, None where it cannot be read.
        last_start: The last session's start, None where it is not near the file's end.
        end: The last record, where that is a session's end.
        steps: Steps recorded by the last session as far as its last window, where one is near.
        last_unix_ns: When the last step seen ended (Unix time).
        size_bytes: Length of the file.
    """

    start: RunStart | None
    last_start: RunStart | None
    end: RunEnd | None
    steps: int | None
    last_unix_ns: int | None
    size_bytes: int


def glance(path: str, fs: FileSystem = LOCAL) -> Glance:
    """Read the ends of a record file.

    Args:
        path: The record file.
        fs: Where it lies.
    """
    size = fs.size(path)
    head = fs.read_range(path, 0, _HEAD_BYTES)
    tail_from = max(0, size - _TAIL_BYTES)
    tail = head if size <= _HEAD_BYTES else fs.read_range(path, tail_from, _TAIL_BYTES)
    start = _decode(head.split(b"\n", 1)[0])
    start = start if isinstance(start, RunStart) else None
    lines = tail.split(b"\n")[1 if tail_from else 0 :]
    last_start, end, window = _last_records(lines)
    end_steps = end.steps if end else None
    started = last_start or start
    return Glance(
        start=start,
        last_start=last_start,
        end=end,
        steps=window.first_step + window.count if window else end_steps,
        last_unix_ns=_last_unix_ns(started, window),
        size_bytes=size,
    )


def _last_records(
    lines: list[bytes],
) -> tuple[RunStart | None, RunEnd | None, StepsWindow | None]:
    """Return, of the last session among these lines: its start, its end and its last window."""
    end = window = None
    for line in reversed(lines):
        record = _decode(line)
        if isinstance(record, RunStart):
            return record, end, window
        if isinstance(record, RunEnd) and end is None and window is None:
            end = record
        elif isinstance(record, StepsWindow):
            window = window or record
    return None, end, window


def _decode(line: bytes) -> Record | None:
    try:
        return _DECODER.decode(line) if line else None
    except msgspec.MsgspecError:
        return None


def _last_unix_ns(start: RunStart | None, window: StepsWindow | None) -> int | None:
    if start is None:
        return None
    columns = window.columns if window else {}
    if "start_ns" not in columns or "dur_ns" not in columns or not window or not window.count:
        return start.started_unix_ns
    try:
        step_end = int(columns["start_ns"].unpack()[-1] + columns["dur_ns"].unpack()[-1])
    except (ValueError, IndexError):  # damaged
        return start.started_unix_ns
    return start.started_unix_ns + step_end
