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
    """The reader of one kind of file: a module that is imported when a file may be of that kind."""

    module: str
    marks: tuple[bytes, ...] = ()
    """The reader is tried only on files whose first 64 KiB hold one of these; if empty, on all."""


_HERE = "lightning_gpuprof.traces"
_SQLITE = b"SQLite format 3"
_SHAPE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    MsgspecError,
)
"""Errors that data of an unexpected shape can cause in a reader."""
SOURCES: dict[str, Source] = {
    "rocprofv3-json": Source(f"{_HERE}.amd.rocprofv3_json", (b"rocprofiler-sdk-tool",)),
    "rocprof": Source(f"{_HERE}.amd.rocprof_v1", (b"BeginNs", _SQLITE)),
    "rpd": Source(f"{_HERE}.amd.rpd", (_SQLITE,)),
    "ascend": Source(f"{_HERE}.ascend.trace_view", (b"Ascend Hardware", b"AscendCL", b"CANN")),
    "kineto": Source(f"{_HERE}.kineto.kineto"),
    "nsys": Source(f"{_HERE}.nvidia.nsys", (_SQLITE,)),
    "rocpd": Source(f"{_HERE}.amd.rocpd", (_SQLITE,)),
    "rocprofv3-csv": Source(f"{_HERE}.amd.rocprofv3_csv", (b"Start_Timestamp",)),
    "jax-xplane": Source(f"{_HERE}.jax.jax_xplane", (b"/host:", b"/device:", b"Task Environment")),
    "perfetto": Source(f"{_HERE}.perfetto.perfetto", (b"\n",)),
    "jax-json": Source(f"{_HERE}.jax.jax_json", (b'"highres-ticks"', b"/host:", b"/device:")),
}
"""Readers by source name, in the order in which they are tried.

A reader is a module with `matches(head)`, which recognizes its files by their first bytes, and
`read(path, options)`.
"""


def find_reader(path: str) -> Any:
    """Return the module that reads a file, chosen by the file's content."""
    head = read_head(path)
    for source in SOURCES.values():
        if source.marks and not any(mark in head.data for mark in source.marks):
            continue
        reader: Any = import_module(source.module)
        if reader.matches(head):
            return reader
    if not head.data:
        raise UnknownTraceError(
            f"{path} is empty, or a gzip stream that ends before its first byte: it was not "
            "written to its end. Record it again."
        )
    if (kind := unsupported(head)) is not None:
        raise UnknownTraceError(f"{path} {kind}")
    raise UnknownTraceError(
        f"{path} is not of a supported kind ({', '.join(SOURCES)}). "
        "Give a trace file as the profiler wrote it."
    )


def open_timeline(path: str, options: ReadOptions | None = None) -> Timeline:
    """Read a trace file of any supported kind; impossible device events are removed."""
    reader = find_reader(path)
    try:
        return checked(reader.read(path, options or ReadOptions()))
    except _SHAPE_ERRORS as error:
        # Readers parse what other programs wrote: an error in them means that the file is faulty.
        raise TraceError(
            f"{path} is damaged, or its layout is not that of its kind of file ({error!r:.200}). "
            "Record it again, or export it in another form."
        ) from error
