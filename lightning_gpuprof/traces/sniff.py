"""Arguments of readers: the start of a file, from which its kind is found, and options."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lightning_gpuprof.errors import TraceError

HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Head:
    """The start of a file, by which its reader is found."""

    path: str
    data: bytes


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
    return Head(path, unpack(packed)[:HEAD_BYTES])


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
