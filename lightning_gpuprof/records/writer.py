"""Appends records to a rank's file, one JSON line each, whole lines only."""

import os
from pathlib import Path
from typing import Any

import msgspec

from lightning_gpuprof.records.files import plugin_dir, record_name
from lightning_gpuprof.records.schema import Record, RunStart


def _encode_foreign(value: Any) -> Any:
    """Turn a user's value (a path, an enum, a torch dtype) into its text."""
    return str(value)


class RecordWriter:
    """Writes one rank's records; each `flush` is one write of whole lines.

    Args:
        run: The run's log dir.
        rank: Global rank of this process.

    Raises:
        OSError: From the first `flush` where the folder cannot be made or written.
    """

    def __init__(self, run: str | os.PathLike[str], *, rank: int) -> None:
        self.path = Path(plugin_dir(os.fspath(run))) / record_name(rank)
        self._encoder = msgspec.json.Encoder(enc_hook=_encode_foreign)
        self._lines: list[bytes] = []

    def write(self, record: Record) -> None:
        """Keep a record for the next `flush`."""
        self._lines.append(self._encoder.encode(record))

    def flush(self) -> None:
        """Append what was kept since the last flush.

        A line that an earlier, killed process tore is ended first, so that it stays the only
        one lost. What could not be written is kept for the next try.
        """
        if not self._lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            torn = b"\n" if file.tell() and not _ends_with_newline(self.path) else b""
            file.write(torn + b"\n".join(self._lines) + b"\n")
        self._lines.clear()


def next_session(run: str | os.PathLike[str], *, rank: int) -> int:
    """Return the number of sessions already in this rank's file: the next session's number."""
    path = Path(plugin_dir(os.fspath(run))) / record_name(rank)
    if not path.exists():
        return 0
    marker = msgspec.json.encode(RunStart.__struct_config__.tag)
    with path.open("rb") as file:
        return sum(line.startswith(b'{"kind":' + marker) for line in file)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
