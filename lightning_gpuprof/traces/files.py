"""Whole files as bytes, unpacked, and what can be saved of those that end early."""

import csv
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.sniff import GZIP_MAGIC, narrow

_T = TypeVar("_T")
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_CLOSING = {0x5B: b"]", 0x7B: b"}"}  # by the code of [ and {


def read_file(path: str, warnings: list[str]) -> bytes:
    """Return a file's content, unpacked where it is gzipped, in UTF-8 where it is UTF-16.

    A gzip stream that ends early or is damaged gives what comes before, and a warning.
    """
    return narrow(_unpacked(Path(path).read_bytes(), warnings))


def read_text(path: str, warnings: list[str]) -> str:
    """Return a text file's content, without the mark that Windows puts before it."""
    return read_file(path, warnings).decode("utf-8-sig", "replace")


def _unpacked(data: bytes, warnings: list[str]) -> bytes:
    if not data.startswith(GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    while data.startswith(GZIP_MAGIC):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(data))
        except zlib.error as error:
            warnings.append(f"The gzip stream is damaged ({error}); what follows is missing.")
            break
        if not unpacker.eof:
            warnings.append("The gzip stream ends early; what follows is missing.")
            break
        data = unpacker.unused_data
    return b"".join(parts)


def decode_json(data: bytes, kind: type[_T], path: str, warnings: list[str]) -> _T:
    """Decode JSON; where it ends early, decode everything up to the last whole element.

    Raises:
        TraceError: Nothing of it can be decoded.
    """
    decoder = msgspec.json.Decoder(kind, strict=False)
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        first = error
    except UnicodeDecodeError:
        warnings.append("The JSON holds bytes that are no text; they are shown as \ufffd.")
        return decode_json(data.decode("utf-8", "replace").encode(), kind, path, warnings)
    try:
        saved = decoder.decode(close_json(data))
    except msgspec.DecodeError:
        raise TraceError(
            f"{path} is not valid JSON ({first}) and nothing could be saved of it. "
            "Record or export it again."
        ) from first
    warnings.append(
        f"The JSON ends early ({first}); everything after the last whole event is lost."
    )
    return saved


def close_json(data: bytes) -> bytes:
    """Cut JSON that ends early after its last whole element and close what is open.

    >>> close_json(b'{"a": [{"b": 1}, {"b": 2}, {"b"')
    b'{"a": [{"b": 1}, {"b": 2}]}'
    """
    opened: list[int] = []
    whole = 0
    still_open: list[int] = []
    for token in _TOKENS.finditer(data):
        code = data[token.start()]
        if code in _CLOSING:
            opened.append(code)
        elif code != 0x22 and opened:
            opened.pop()
            whole, still_open = token.end(), list(opened)
    return data[:whole] + b"".join(_CLOSING[code] for code in reversed(still_open))


def read_csv(path: str, warnings: list[str]) -> Iterator[Mapping[str, str]]:
    """Yield a CSV file's rows by column name; a last row that is cut is left out, and said."""
    yield from parse_csv(read_text(path, warnings), warnings)


def parse_csv(
    text: str, warnings: list[str], *, needed: int | None = None
) -> Iterator[Mapping[str, str]]:
    """Yield the rows of CSV text by column name.

    A row with at least `needed` fields (by default one for each column) is whole.
    """
    reader = csv_rows(text)
    header = [name.strip() for name in next(reader, None) or []]
    cut = 0
    for row in reader:
        if row is not None and (needed or len(header)) <= len(row) <= len(header):
            yield dict(zip(header, row, strict=False))
        elif row != []:
            cut += 1
    if cut:
        warnings.append(f"{cut} CSV rows do not have {len(header)} fields; they are left out.")


def csv_rows(text: str) -> Iterator[list[str] | None]:
    """Yield rows, and None for what is no row at all."""
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            yield None
            continue
        if row is None:
            return
        yield row


def csv_header(head: bytes) -> frozenset[str]:
    r"""Return the column names in the first line of a file that looks like CSV, or nothing.

    >>> sorted(csv_header(b'"Name","Calls"\n"a",1\n'))
    ['Calls', 'Name']
    """
    line = head.split(b"\n", 1)[0]
    try:
        text = line.decode("utf-8-sig")
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
        return int(plain, 0) if plain[:2].lower() == "0x" else int(plain)
    except ValueError:
        pass
    try:
        return round(float(plain))
    except (ValueError, OverflowError):  # no number, or an infinite one
        return None


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
        return int(whole + (fraction + "0" * digits)[:digits])
    except ValueError:
        return None
