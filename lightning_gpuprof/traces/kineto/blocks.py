"""A file's content as a stream of large blocks, gunzipped on a second core meanwhile."""

import os
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, BinaryIO

from lightning_gpuprof.traces.sniff import GZIP_MAGIC

try:
    isal_zlib: Any = import_module("isal.isal_zlib")
except ImportError:  # where no wheel of isal fits: the same, about a tenth slower overall
    isal_zlib = None

BLOCK_BYTES = 1 << 20
_PACKED_BYTES = 256 << 10
_GZIP_ERRORS: tuple[type[Exception], ...] = (zlib.error, (isal_zlib or zlib).error)

Warn = Callable[[str], None]
Progress = Callable[[int, int], None]


def read_blocks(path: str, warn: Warn, progress: Progress | None = None) -> Iterator[bytes]:
    """Yield the content of a plain or gzipped file in blocks of about 1 MiB.

    Unpacking runs in a thread: zlib and isal release the interpreter while they work. A gzip
    stream that is cut short or damaged yields its whole part and a warning.
    """
    with Path(path).open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        blocks = _gunzipped(file, warn) if packed else _plain(file)
        if progress is not None:
            blocks = _reporting(blocks, file, progress)
        yield from _ahead(blocks) if packed else blocks


def _reporting(blocks: Iterator[bytes], file: BinaryIO, progress: Progress) -> Iterator[bytes]:
    total = os.fstat(file.fileno()).st_size
    for block in blocks:
        yield block
        progress(file.tell(), total)


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield block


def _gunzipped(file: BinaryIO, warn: Warn) -> Iterator[bytes]:
    unpacker = _unpacker()
    packed = b""
    while True:
        packed = packed or file.read(_PACKED_BYTES)
        if not packed:
            if not unpacker.eof:
                warn("The gzip stream ends early: what follows in the file was lost.")
            return
        if unpacker.eof:  # gzip files may be concatenated
            packed = packed.lstrip(b"\0")
            if not packed:
                continue
            if not packed.startswith(GZIP_MAGIC[: len(packed)]):
                warn("Bytes after the end of the gzip stream were skipped.")
                return
            unpacker = _unpacker()
        try:
            block = unpacker.decompress(packed, BLOCK_BYTES)
        except _GZIP_ERRORS as error:
            warn(f"The gzip stream is damaged ({error}): what follows was lost.")
            return
        packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
        if block:
            yield block


def _unpacker() -> Any:
    return (isal_zlib or zlib).decompressobj(wbits=31)


def _ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Run an iterator in a thread, at most two blocks ahead of its consumer."""
    queue: Queue[bytes | BaseException | None] = Queue(maxsize=2)
    closed = False

    def produce() -> None:
        try:
            for block in blocks:
                queue.put(block)
                if closed:
                    return
        except BaseException as error:  # noqa: BLE001 - handed over and raised by the consumer
            queue.put(error)
        else:
            queue.put(None)

    worker = Thread(target=produce, name="gpuprof-unpack", daemon=True)
    worker.start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed = True
        while not queue.empty():
            queue.get_nowait()
        worker.join()
