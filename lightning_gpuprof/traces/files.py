"""Reads files in blocks or as a whole, unpacks gzip, and parses CSV."""

import codecs
import csv
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, BinaryIO

from typing_extensions import override

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import open_file
from lightning_gpuprof.traces.sniff import GZIP_MAGIC

try:
    _zlib: Any = import_module("isal.isal_zlib")
except ImportError:  # the extra `fast` is not installed: zlib does the same, slower
    _zlib = zlib
BLOCK_BYTES = 1 << 20
_PACKED_BYTES = 1 << 16
MOST_BYTES = 1 << 28
"""The largest size, unpacked, of a file that is read as a whole: its events take a multiple."""
MOST_CSV_BYTES = 1 << 30
"""The largest size, unpacked, of a CSV file that is read line by line."""
MOST_RATIO = 250
"""The most unpacked bytes per packed byte, for a file that unpacks to more than `_FREE_BYTES`."""
_FREE_BYTES = 1 << 24
_LONGEST_LINE = 1 << 20
"""The most characters of a line of CSV."""


def read_blocks(
    path: str, warnings: list[str], progress: Callable[[int, int], None] | None = None
) -> Iterator[bytes]:
    """Yield the content of a plain or gzipped file in blocks of about 1 MiB.

    A gzip stream that ends early or is damaged gives what comes before, and a warning.
    """
    with open_file(path) as file:
        total = os.fstat(file.fileno()).st_size
        zipped = file.read(2) == GZIP_MAGIC
        file.seek(0)
        plain = iter(lambda: file.read(BLOCK_BYTES), b"")
        for block in _unzipped(path, file, warnings) if zipped else plain:
            yield block
            if progress is not None:
                progress(file.tell(), total)


def _unzipped(path: str, file: BinaryIO, warnings: list[str]) -> Iterator[bytes]:
    unpacker, whole = _zlib.decompressobj(wbits=31), 0
    while packed := file.read(_PACKED_BYTES):
        while packed:
            if unpacker.eof:  # gzip files may be concatenated
                unpacker = _zlib.decompressobj(wbits=31)
            try:
                block = unpacker.decompress(packed)
            except (zlib.error, _zlib.error) as error:
                warnings.append(f"The gzip stream is damaged ({error}); what follows is missing.")
                return
            whole += len(block)
            if whole > max(_FREE_BYTES, MOST_RATIO * file.tell()):
                raise TraceError(
                    f"{path} unpacks to more than {MOST_RATIO} times its size, which no trace "
                    "does. Unpack it with gunzip if you trust it."
                )
            yield block
            packed = unpacker.unused_data.lstrip(b"\0")
    if not unpacker.eof:
        warnings.append("The gzip stream ends early; what follows is missing.")


def read_file(path: str, warnings: list[str]) -> bytearray:
    """Return a file's content, unpacked where it is gzipped.

    A file that is too large is refused before any of its content is kept.
    """
    _check_size(path, MOST_BYTES)
    content = bytearray()
    for block in read_blocks(path, warnings):
        content += block
    return content


def _check_size(path: str, most: int) -> None:
    if _content_bytes(path, most) > most:
        raise TraceError(
            f"{path} holds more than {most >> 20} MiB, the most that is read of its kind of file. "
            "Record fewer steps."
        )


def _content_bytes(path: str, most: int) -> int:
    """Return a file's size, unpacked; of a larger one than may be read, any size above that."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        zipped = file.read(2) == GZIP_MAGIC
    if not zipped or size > most:
        return size
    size = 0
    # Unpacked twice, since a size that the file itself states may be forged.
    for block in read_blocks(path, []):
        size += len(block)
        if size > most:
            break
    return size


def read_text(path: str, warnings: list[str]) -> str:
    """Return a text file's content, without the byte order mark that Windows adds."""
    return read_file(path, warnings).decode("utf-8-sig", "replace")


def read_csv(path: str, warnings: list[str]) -> Iterator[Mapping[str, str]]:
    """Yield a CSV file's rows by column name; incomplete rows are left out, with a warning.

    The text is not kept: a line that is too long counts as incomplete rows.
    """
    _check_size(path, MOST_CSV_BYTES)
    content = io.BufferedReader(_Content(read_blocks(path, warnings)), BLOCK_BYTES)
    text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="replace", newline="")
    yield from parse_csv(iter(lambda: text.readline(_LONGEST_LINE), ""), warnings)


class _Content(io.RawIOBase):
    """The blocks of a file as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, memoryview(b"")

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        length = min(len(buffer), len(self._left))
        buffer[:length], self._left = self._left[:length], self._left[length:]
        return length


def parse_csv(
    text: str | Iterator[str], warnings: list[str], *, needed: int | None = None
) -> Iterator[Mapping[str, str]]:
    """Yield the rows of CSV text, or of its lines, by column name.

    A row with at least `needed` fields (by default one for each column) is complete.
    """
    reader = csv_rows(text)
    header = [name.strip() for name in next(reader, None) or []]
    incomplete = 0
    for row in reader:
        if row is not None and (needed or len(header)) <= len(row) <= len(header):
            yield dict(zip(header, row, strict=False))
        elif row != []:
            incomplete += 1
    if incomplete:
        warnings.append(
            f"{incomplete} CSV rows do not have {len(header)} fields; they are left out."
        )


def csv_rows(text: str | Iterator[str]) -> Iterator[list[str] | None]:
    """Yield the rows of CSV text, or of its lines, and None where a line cannot be parsed."""
    reader = csv.reader(io.StringIO(text, newline="") if isinstance(text, str) else text)
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            yield None
            continue
        if row is None:
            return
        yield row


def is_utf8(text: bytes | bytearray) -> bool:
    r"""Return whether a text of any length is UTF-8, without a copy of it as `str`.

    >>> is_utf8("é".encode()), is_utf8(b"\xff")
    (True, False)
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), BLOCK_BYTES):
            decoder.decode(text[start : start + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def csv_header(head: bytes) -> frozenset[str]:
    """Return the column names in the first line of a file, read as CSV; none if it is not text."""
    try:
        text = head.split(b"\n", 1)[0].decode("utf-8-sig")
    except UnicodeDecodeError:
        return frozenset()
    row = next(csv_rows(text), None) or []
    return frozenset(name.strip() for name in row)


def integer(text: str | int | None) -> int | None:
    """Read an integer as profilers write them: quoted, hexadecimal, with separators, or absent.

    >>> integer("1,234"), integer("0x10"), integer(""), integer("12.0")
    (1234, 16, None, 12)
    """
    if text is None or isinstance(text, int):
        return text
    plain = text.strip().replace(",", "")
    try:
        return _in_range(int(plain, 0) if plain[:2].lower() == "0x" else int(plain))
    except ValueError:
        pass
    try:
        return _in_range(round(float(plain)))
    except (ValueError, OverflowError):  # no number, or an infinite one
        return None


def _in_range(number: int) -> int | None:
    return number if abs(number) < 1 << 64 else None


_DECIMALS = {"ns": 0, "us": 3, "ms": 6, "s": 9, "nsec": 0, "usec": 3, "msec": 6, "sec": 9}


def scaled(text: str, unit: str) -> int | None:
    """Read a time with decimals as whole ns, without the loss of a float.

    >>> scaled("1,712,345,678,901,234.567", "us"), scaled("12", "ms"), scaled("", "ns")
    (1712345678901234567, 12000000, None)
    """
    digits = _DECIMALS.get(unit)
    if digits is None:
        return None
    whole, _, fraction = text.strip().replace(",", "").partition(".")
    try:
        return _in_range(int(whole + (fraction + "0" * digits)[:digits]))
    except ValueError:
        return None
