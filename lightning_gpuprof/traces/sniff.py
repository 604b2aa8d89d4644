"""Arguments of readers: the start of a file, from which its kind is found, and options."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lightning_gpuprof.errors import TraceError

HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""The start of UTF-16, which PowerShell writes where a tool's output is redirected."""


@dataclass(frozen=True)
class Head:
    """The start of a file, by which its reader is found.

    Args:
        path: The file; its name is a last resort where two formats look alike.
        data: Its first 64 KiB, unpacked where it is gzipped, in UTF-8.
        wide: Whether the file is text in UTF-16.
    """

    path: str
    data: bytes
    wide: bool = False


@dataclass(frozen=True)
class ReadOptions:
    """Parts to read beyond the events themselves.

    Args:
        stacks: Read Python calls too, where the file holds them; they cost time and memory.
        memory: Read the allocator's marks too.
        progress: Called now and then with the bytes of the file read so far and its size.
    """

    stacks: bool = False
    memory: bool = False
    progress: Callable[[int, int], None] | None = None


def read_head(path: str) -> Head:
    """Read the start of a file; a gzip stream that ends early gives what it holds."""
    if Path(path).is_dir():
        raise TraceError(
            f"{path} is a folder. Give the trace files in it; a run's lie in its plugins/gpuprof, "
            "and `lightning-gpuprof report` reads the run itself."
        )
    try:
        with Path(path).open("rb") as file:
            packed = file.read(HEAD_BYTES)
    except OSError as error:
        raise TraceError(
            f"Cannot read {path}: {error.strerror}. Give the path of a file."
        ) from error
    data = unpack(packed)[:HEAD_BYTES]
    narrowed = narrow(data)
    return Head(path, narrowed, wide=narrowed is not data)


def narrow(data: bytes) -> bytes:
    r"""Return text in UTF-16 as UTF-8, and anything else, or UTF-16 of no text, as it is.

    >>> narrow("ID".encode("utf-16")), narrow(b"ID"), narrow(b"\xff\xfe\x00\x00")
    (b'ID', b'ID', b'\xff\xfe\x00\x00')
    """
    if not data.startswith(_WIDE):
        return data
    text = data[: len(data) // 2 * 2].decode("utf-16", "replace")
    return data if "\0" in text else text.encode()


def unpack(packed: bytes) -> bytes:
    """Return the unpacked start of a gzip stream, or the bytes themselves.

    >>> import gzip
    >>> unpack(gzip.compress(b"abc")), unpack(b"abc")
    (b'abc', b'abc')
    """
    if not packed.startswith(GZIP_MAGIC):
        return packed
    try:
        return zlib.decompressobj(wbits=31).decompress(packed, HEAD_BYTES)
    except zlib.error:
        return b""
