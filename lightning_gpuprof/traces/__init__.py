"""Reads trace files of any profiler into one Timeline of columns."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from msgspec import MsgspecError

from lightning_gpuprof.errors import TraceError, UnknownTraceError
from lightning_gpuprof.traces.gate import checked
from lightning_gpuprof.traces.sniff import ReadOptions, read_head, unsupported
from lightning_gpuprof.traces.timeline import Timeline

__all__ = ["SOURCES", "ReadOptions", "Source", "find_reader", "open_timeline"]


@dataclass(frozen=True)
class Source:
    """Where a kind of file is read, by a module that is imported when it is needed."""

    module: str
    marks: tuple[bytes, ...] = ()
    """It is asked only about files whose first 64 KiB hold one of these; empty: about every one."""


_HERE = "lightning_gpuprof.traces"
_SQLITE = b"SQLite format 3"
_OF_SHAPE = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    MsgspecError,
)
"""What Python raises about data of an unexpected shape."""
SOURCES: dict[str, Source] = {
    "rocprofv3-json": Source(f"{_HERE}.amd.rocprofv3_json", (b"rocprofiler-sdk-tool",)),
    "rocprof": Source(f"{_HERE}.amd.rocprof_v1", (b"BeginNs", _SQLITE)),
    "rpd": Source(f"{_HERE}.amd.rpd", (_SQLITE,)),
    "kineto": Source(f"{_HERE}.kineto.kineto"),
    "nsys": Source(f"{_HERE}.nvidia.nsys", (_SQLITE,)),
    "rocpd": Source(f"{_HERE}.amd.rocpd", (_SQLITE,)),
    "rocprofv3-csv": Source(f"{_HERE}.amd.rocprofv3_csv", (b"Start_Timestamp",)),
    "jax-xplane": Source(f"{_HERE}.jax.jax_xplane", (b"/host:", b"/device:", b"Task Environment")),
}
"""Readers by source name, tried in this order: modules with `matches(head)`, which tells from a
file's first bytes, and `read(path, options)`."""


def find_reader(path: str) -> Any:
    """Return the reader's module for a file, found from its content."""
    head = read_head(path)
    for source in SOURCES.values():
        if source.marks and not any(mark in head.data for mark in source.marks):
            continue
        reader: Any = import_module(source.module)
        if reader.matches(head):
            return reader
    if not head.data:
        raise UnknownTraceError(
            f"{path} holds nothing, or a gzip stream that ends before its first byte: it was not "
            "written to its end. Record it again."
        )
    if (known := unsupported(head)) is not None:
        raise UnknownTraceError(f"{path} {known}")
    raise UnknownTraceError(
        f"{path} is not of a kind that can be read here ({', '.join(SOURCES)}). "
        "Give a trace file as the profiler wrote it."
    )


def open_timeline(path: str, options: ReadOptions | None = None) -> Timeline:
    """Read a trace file of any known kind, and keep what of its device events is possible."""
    reader = find_reader(path)
    try:
        return checked(reader.read(path, options or ReadOptions()))
    except _OF_SHAPE as error:
        # Readers take apart what others wrote: what Python says of it is said of the file.
        raise TraceError(
            f"{path} is damaged, or not laid out as its kind of file is ({error!r:.200}). "
            "Record it again, or export it in another form."
        ) from error
