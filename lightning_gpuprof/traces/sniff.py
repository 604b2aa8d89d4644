"""What readers are given: the start of a file, by which its kind is recognized, and options."""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import open_file

HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Head:
    """The start of a file, by which its reader is chosen."""

    path: str
    data: bytes


@dataclass(frozen=True)
class ReadOptions:
    """Parts to read beyond the events themselves."""

    stacks: bool = False
    """Python calls, where the file holds them; they cost time and memory."""
    memory: bool = False
    """The allocator's marks."""
    progress: Callable[[int, int], None] | None = None
    """Called now and then with the bytes of the file read so far and its size."""


def read_head(path: str) -> Head:
    """Read the start of a file; a gzip stream that ends early gives what it holds."""
    if Path(path).is_dir():
        raise TraceError(
            f"{path} is a folder. Give the trace files in it; a run's lie in its plugins/gpuprof, "
            "and `lightning-gpuprof report` reads the run itself."
        )
    try:
        with open_file(path) as file:
            packed = file.read(HEAD_BYTES)
    except OSError as error:
        raise TraceError(
            f"Cannot read {path}: {error.strerror}. Give the path of a file."
        ) from error
    if packed.startswith(GZIP_MAGIC):
        try:
            packed = zlib.decompressobj(wbits=31).decompress(packed, HEAD_BYTES)
        except zlib.error:
            packed = b""
    return Head(path, packed)


PERFETTO_JSON = (
    "export JSON instead: torch.profiler's export_chrome_trace to a path that ends in .json, "
    "rocprofv3 with --output-format json, others with Perfetto's `traceconv json FILE`"
)
_SEARCHED_BYTES = 1 << 14
_BY_NAME = {
    ".nsys-rep": "a report of Nsight Systems; export it with `nsys export --type sqlite`",
    ".qdrep": "a report of Nsight Systems; export it with `nsys export --type sqlite`",
    ".ncu-rep": "a report of Nsight Compute; print it with `ncu --import FILE --csv --page raw`",
    ".pftrace": f"a protobuf trace of Perfetto; {PERFETTO_JSON}",
    ".otf2": "an OTF2 archive; record rocprofv3 with --output-format rocpd",
}
"""Binary kinds, recognized by the ending of the file's name."""
JAX_CHROME = re.compile(rb'"highres-ticks"|"/(?:host|device):[A-Z]+')
_CHROME = {
    JAX_CHROME.pattern: "a Chrome trace of JAX's profiler; give the xplane.pb beside it",
    rb'"args":\{"desc":': "the JSON of rpd2tracing; give the .rpd file that it was made from",
    rb'"BeginNs"\s*:': "the results.json of rocprof v1; give the results.db or results.csv "
    "beside it",
}
"""Chrome traces of other profilers: the reader of Kineto's would lose most of their content."""
OTHER_CHROME = re.compile(b"|".join(_CHROME))
_BY_CONTENT = {
    rb'\A\s*\[\s*\{\s*"children"\s*:': "a call tree of Proton (Triton) or Hatchet, without "
    "times of events; record with torch.profiler",
    rb"speedscope\.app/file-format-schema": "a profile of samples for speedscope, without a "
    "device's work; record with torch.profiler",
    rb"\A\s*\[\[-?\d+, -?\d+, -?\d+, -?\d+\]": "torch's memory timeline, without lines of the "
    "program; write a snapshot with torch.cuda.memory._dump_snapshot()",
    rb"\A(?:PK\x03\x04|[\s\S]{257}ustar|\x28\xb5\x2f\xfd|\xfd7zXZ\x00|BZh[1-9])": "packed; "
    "unpack it first",
    rb"==\d+== +(?:NVPROF|Profiling (?:result|application))": "output of nvprof; record with "
    "torch.profiler or nsys profile",
    rb"(?m)^ *Time ?\(%\) +Total Time": "a report of nsys laid out for reading; print it with "
    "`nsys stats --format csv`",
    rb"(?m)^ +Section: \w[^\n]*\n *-{5,} -{5,}|^==(?:PROF|ERROR|WARNING)== ": "output of Nsight "
    "Compute without a CSV table; print it with `ncu --csv`",
}


def unsupported(head: Head) -> str | None:
    r"""Return what an unsupported file is and what to give instead; None for an unknown kind.

    >>> unsupported(Head("x", b"PK\x03\x04..."))
    'is packed; unpack it first.'
    """
    start = head.data[:_SEARCHED_BYTES]
    is_json = start.lstrip()[:1] in (b"[", b"{")
    patterns = {**_CHROME, **_BY_CONTENT} if is_json else _BY_CONTENT
    kinds = [kind for pattern, kind in patterns.items() if re.search(pattern, start)]
    kinds += [kind for ending, kind in _BY_NAME.items() if head.path.endswith(ending)]
    return f"is {kinds[0]}." if kinds else None
