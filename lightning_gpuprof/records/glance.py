"""Reads the beginning and the end of a record file, which is enough to list a run."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.decode import read_record
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.records.schema import Record, RunEnd, RunStart, StepsWindow

_HEAD_BYTES = 2**16
_TAIL_BYTES = 2**18
"""Holds several windows, so that at least one `steps` line is complete."""


@dataclass(frozen=True)
class Glance:
    """What the beginning and the end of a record file say about a run.

    Args:
        start: The start of the first session, or of the last session if that cannot be read.
        last_start: The start of the last session; None if it is not near the file's end.
        steps: Steps that the last session had recorded up to its last window; None if no window
            and no end is near the file's end.
        last_unix_ns: When the last step of that window ended.
        why: Why the start of the first session cannot be read; empty if it can.
    """

    start: RunStart | None
    last_start: RunStart | None
    end: RunEnd | None
    steps: int | None
    last_unix_ns: int | None
    size_bytes: int
    why: str = ""


def glance(path: str, fs: FileSystem = LOCAL) -> Glance:
    """Read the beginning and the end of a record file."""
    size = fs.size(path)
    start, why = _first(fs.read_range(path, 0, _HEAD_BYTES))
    why = why and f"line 1 of {os.path.basename(path)} cannot be read: {why}."
    tail_from = max(0, size - _TAIL_BYTES)
    lines = fs.read_range(path, tail_from, _TAIL_BYTES).split(b"\n")
    last = _records(lines[1:] if tail_from else lines)
    starts = [index for index, record in enumerate(last) if isinstance(record, RunStart)]
    last = last[starts[-1] :] if starts else last
    last_start = last[0] if last and isinstance(last[0], RunStart) else None
    end = last[-1] if last and isinstance(last[-1], RunEnd) else None
    windows = [record for record in last if isinstance(record, StepsWindow)]
    window = windows[-1] if windows else None
    steps = window.first_step + window.count if window else end.steps if end else None
    last_unix_ns = _last_unix_ns(last_start or start, window)
    # If the first line cannot be read, the last session stands for the run.
    return Glance(start or last_start, last_start, end, steps, last_unix_ns, size, why)


def _first(head: bytes) -> tuple[RunStart | None, str]:
    try:
        first = read_record(head.split(b"\n", 1)[0])
    except UnreadableError as error:
        return None, str(error)
    return (first, "") if isinstance(first, RunStart) else (None, "it does not begin a session")


def _records(lines: list[bytes]) -> list[Record]:
    """Decode lines and leave out the ones that cannot be read."""
    records = []
    for line in lines:
        with suppress(UnreadableError):
            records.append(read_record(line))
    return records


def _last_unix_ns(start: RunStart | None, window: StepsWindow | None) -> int | None:
    if start is None:
        return None
    columns = window.columns if window else {}
    try:
        start_ns, dur_ns = (int(columns[name].unpack()[-1]) for name in ("start_ns", "dur_ns"))
    except (KeyError, ValueError, IndexError):  # the columns are missing or damaged
        return start.started_unix_ns
    return start.started_unix_ns + start_ns + dur_ns


def process_lives(start: RunStart) -> bool | None:
    """Return whether the training process lives; None if it ran on another machine, or on Windows.

    There signal 0 is no question, but the event of Ctrl-C.
    """
    if not start.pid or start.host != socket.gethostname() or os.name == "nt":
        return None
    try:
        os.kill(start.pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
