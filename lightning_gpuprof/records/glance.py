"""The two ends of a record file, enough to list a run without reading it all."""

from contextlib import suppress
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
    head = _records(fs.read_range(path, 0, _HEAD_BYTES).split(b"\n", 1)[:1])
    start = head[0] if head and isinstance(head[0], RunStart) else None
    tail_from = max(0, size - _TAIL_BYTES)
    lines = fs.read_range(path, tail_from, _TAIL_BYTES).split(b"\n")
    last = _records(lines[1:] if tail_from else lines)
    begun = [at for at, record in enumerate(last) if isinstance(record, RunStart)]
    last = last[begun[-1] :] if begun else last
    last_start = last[0] if last and isinstance(last[0], RunStart) else None
    end = last[-1] if last and isinstance(last[-1], RunEnd) else None
    window = next((one for one in reversed(last) if isinstance(one, StepsWindow)), None)
    steps = window.first_step + window.count if window else end.steps if end else None
    last_unix_ns = _last_unix_ns(last_start or start, window)
    return Glance(start, last_start, end, steps, last_unix_ns, size)


def _records(lines: list[bytes]) -> list[Record]:
    """Return the records of some lines, without those that cannot be read."""
    found = []
    for line in lines:
        with suppress(msgspec.MsgspecError):
            found.append(_DECODER.decode(line))
    return found


def _last_unix_ns(start: RunStart | None, window: StepsWindow | None) -> int | None:
    if start is None:
        return None
    columns = window.columns if window else {}
    try:
        step_end = columns["start_ns"].unpack()[-1] + columns["dur_ns"].unpack()[-1]
    except (KeyError, ValueError, IndexError):  # none, or damaged
        return start.started_unix_ns
    return start.started_unix_ns + int(step_end)
