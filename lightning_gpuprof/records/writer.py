"""Appends records to a rank's file, one JSON line each, whole lines only."""

import os
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lightning_gpuprof.records.files import plugin_dir, record_name
from lightning_gpuprof.records.schema import Record, RunStart


def _encode_foreign(value: Any) -> Any:
    """Turn a user's value (a path, an enum, a torch dtype) into its text."""
    return str(value)


def _readable(value: Any) -> Any:
    """Return the same with what is not UTF-8 written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(one) for one in value]
    return value


class _Kept(NamedTuple):
    """What is to be written and where, replaced as one: Ctrl-C finds the one before or after."""

    lines: list[bytes]
    length: int = -1
    """Of the file after the last write; -1 before the first."""
    tried: int | None = None
    """Length before a write that may have been torn; the rest of the file may be part of it."""


class RecordWriter:
    """Writes one rank's records; each `flush` is one write of whole lines.

    The file stays open between flushes: to open it anew costs a training loop more than to write.
    """

    def __init__(self, run: str | os.PathLike[str], *, rank: int) -> None:
        self.path = Path(plugin_dir(os.fspath(run))) / record_name(rank)
        self._encoder = msgspec.json.Encoder(enc_hook=_encode_foreign)
        self._kept = _Kept([])
        self._begun: bytes | None = None
        self._file: FileIO | None = None
        self.shared = False

    def write(self, record: Record) -> None:
        """Keep a record for the next `flush`."""
        try:
            line = self._encoder.encode(record)
        except UnicodeEncodeError:  # in a name of a file, which may be any bytes
            plain = msgspec.to_builtins(record, enc_hook=_encode_foreign)
            line = self._encoder.encode(_readable(plain))
        if isinstance(record, RunStart):
            self._begun = line
        self._kept.lines.append(line)

    def flush(self) -> None:
        """Append what was kept since the last flush.

        A line that an earlier, killed process tore is ended first, so that it stays the only
        one lost. Lines that could not be written are kept for the next try, and half of one left by
        a full disk or Ctrl-C is taken back. A file that somebody has deleted begins anew with the
        session's start, without which the rest could not be read.
        """
        lines, known, tried = self._kept
        if not lines:
            return
        file, length = self._open_file()
        if tried is not None and tried < length:
            file.truncate(tried)
            length = tried
        if not length and self._begun is not None and self._begun not in lines:
            lines.insert(0, self._begun)
        # Its own writes end with a newline.
        foreign = length and length != known
        self.shared |= bool(foreign and known >= 0)
        torn = b"\n" if foreign and not _ends_with_newline(self.path) else b""
        text = torn + b"\n".join(lines) + b"\n"
        self._kept = _Kept(lines, known, length)
        try:
            _write_all(file, text)
        except OSError:
            with suppress(OSError):
                file.truncate(length)
                self._kept = _Kept(lines, known)
            self.close()
            raise
        self._kept = _Kept([], length + len(text))

    def close(self) -> None:
        """Close the file; a later `flush` opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open_file(self) -> tuple[FileIO, int]:
        """Return the file and its length."""
        if self._file is not None:
            found = os.fstat(self._file.fileno())
            if found.st_nlink:
                return self._file, found.st_size
            self.close()  # somebody has deleted it
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self.path, "ab", opener=_open_regular)
        return self._file, os.fstat(self._file.fileno()).st_size


def next_session(run: str | os.PathLike[str], *, rank: int) -> int:
    """Return the number of sessions already in a rank's file: the next session's number."""
    path = Path(plugin_dir(os.fspath(run))) / record_name(rank)
    if not path.is_file():  # to read a pipe or a device may take for ever
        return 0
    marker = msgspec.json.encode(RunStart.__struct_config__.tag)
    with path.open("rb") as file:
        return sum(line.startswith(b'{"kind":' + marker) for line in file)


def _open_regular(path: str, flags: int) -> int:
    """Open a file, but none at which a write would wait: a pipe without a reader, a device."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _write_all(file: FileIO, text: bytes) -> None:
    left = memoryview(text)
    while left:
        left = left[file.write(left) :]
