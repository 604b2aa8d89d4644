"""Reads trace files of any profiler into one Timeline of columns."""

from importlib import import_module
from typing import Protocol, cast

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head, read_head
from lightning_gpuprof.traces.timeline import Timeline

__all__ = ["SOURCES", "ReadOptions", "Reader", "find_reader", "open_timeline"]

SOURCES: dict[str, str] = {
    "kineto": "lightning_gpuprof.traces.kineto",
}
"""Reader modules by source name, tried in this order; each is imported when it is needed."""


class Reader(Protocol):
    """What a module named in `SOURCES` offers."""

    def matches(self, head: Head) -> bool:
        """Tell from a file's first bytes whether `read` can read it."""
        ...

    def read(self, path: str, options: ReadOptions) -> Timeline:
        """Read the whole file."""
        ...


def find_reader(path: str) -> Reader:
    """Return the reader for a file, found from its content.

    Raises:
        TraceError: The file cannot be read or is of no known kind.
    """
    head = read_head(path)
    for module in SOURCES.values():
        reader = cast(Reader, import_module(module))
        if reader.matches(head):
            return reader
    raise TraceError(
        f"{path} is of no kind that can be read here ({', '.join(SOURCES)}). "
        "Give a trace file as the profiler wrote it."
    )


def open_timeline(path: str, options: ReadOptions | None = None) -> Timeline:
    """Read a trace file of any known kind."""
    return find_reader(path).read(path, options or ReadOptions())
