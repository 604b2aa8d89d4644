"""Appends records to a rank's file as lines of JSON."""

import os
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lightning_gpuprof.records.files import plugin_dir, record_name
from lightning_gpuprof.records.rollup import RollupWriter
from lightning_gpuprof.records.schema import Record, RunStart


def _encode_foreign(value: Any) -> Any:
    """Return the text of a user's value that JSON cannot hold, such as a path or a torch dtype."""
    return str(value)


def _readable(value: Any) -> Any:
    """Return a value with escapes in place of text that is not valid UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value


class _Pending(NamedTuple):
    """The lines to write next, and what is known of the file.

    It is replaced as a whole, so that Ctrl-C leaves it as it was before or after a change.
    """

    lines: list[bytes]
    length: int = -1
    """The file's length after the last write; -1 before the first."""
    length_before: int | None = None
    """The file's length before a write that may be incomplete: what follows may be part of it."""


class RecordWriter:
    """Writes a rank's records: every `flush` appends all new records in a single write.

    The file stays open between flushes, because opening it takes longer than writing to it. With
    several ranks, a rollup of the file is written beside it.

    Attributes:
        shared: Something else has written to the file since this writer first did.
    """

    def __init__(self, run: str | os.PathLike[str], *, rank: int) -> None:
        self.path = Path(plugin_dir(os.fspath(run))) / record_name(rank)
        self._encoder = msgspec.json.Encoder(enc_hook=_encode_foreign)
        self._pending = _Pending([])
        self._start_line: bytes | None = None
        self._file: FileIO | None = None
        self._rollup: RollupWriter | None = None
        self.shared = False

    def write(self, record: Record) -> None:
        """Encode a record, to be written by the next `flush`."""
        try:
            line = self._encoder.encode(record)
        except UnicodeEncodeError:  # file names may hold any bytes
            plain = msgspec.to_builtins(record, enc_hook=_encode_foreign)
            line = self._encoder.encode(_readable(plain))
        if isinstance(record, RunStart):
            self._start_line = line
            if record.world_size > 1:
                self._rollup = RollupWriter(self.path, line)
        self._pending.lines.append(line)

    def flush(self) -> None:
        """Append the records of all calls of `write` since the last flush.

        If another process was killed while it wrote to the file, its incomplete line is ended
        first, so that no other line is lost. If this write fails, as on a full disk, what it wrote
        is removed and the next flush writes all lines again; the same holds after Ctrl-C. If the
        file was deleted, the new file begins with the session's start, without which the records
        could not be read.

        Raises:
            OSError: The file cannot be written.
        """
        lines, length_after_last, length_before = self._pending
        if not lines:
            return
        file, length = self._open_file()
        if length_before is not None and length_before < length:
            file.truncate(length_before)
            length = length_before
        if not length and self._start_line is not None and self._start_line not in lines:
            lines.insert(0, self._start_line)
        # This writer's own writes end with a newline.
        foreign = length and length != length_after_last
        self.shared |= bool(foreign and length_after_last >= 0)
        line_end = b"\n" if foreign and not _ends_with_newline(self.path) else b""
        text = line_end + b"\n".join(lines) + b"\n"
        self._pending = _Pending(lines, length_after_last, length)
        try:
            _write_all(file, text)
        except OSError:
            with suppress(OSError):
                file.truncate(length)
                self._pending = _Pending(lines, length_after_last)
            self.close()
            raise
        self._pending = _Pending([], length + len(text))
        if self._rollup is not None:
            self._rollup.add(length + len(line_end), lines)

    def close(self) -> None:
        """Close the file; a later `flush` opens it again."""
        if self._rollup is not None:
            self._rollup.fold()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open_file(self) -> tuple[FileIO, int]:
        """Return the open file and its length."""
        if self._file is not None:
            status = os.fstat(self._file.fileno())
            if status.st_nlink:
                return self._file, status.st_size
            self.close()  # the file was deleted
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self.path, "ab", opener=_open_regular)
        return self._file, os.fstat(self._file.fileno()).st_size


def next_session(run: str | os.PathLike[str], *, rank: int) -> int:
    """Return the number of the next session: how many sessions a rank's file holds already."""
    path = Path(plugin_dir(os.fspath(run))) / record_name(rank)
    if not path.is_file():  # reading a pipe or a device may never end
        return 0
    marker = msgspec.json.encode(RunStart.__struct_config__.tag)
    with path.open("rb") as file:
        return sum(line.startswith(b'{"kind":' + marker) for line in file)


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; refuse others, such as a pipe without a reader: writing would block."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _write_all(file: FileIO, text: bytes) -> None:
    left = memoryview(text)
    while left:
        left = left[file.write(left) :]
