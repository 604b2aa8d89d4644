"""Names files of kinds that are known but not read here, and says what to give instead."""

import re

from lightning_gpuprof.traces.sniff import Head

_BYTES = 1 << 14
_SQLITE = "Export it with `nsys export --type sqlite`"
_NSYS = ("a report of Nsight Systems in its own format", _SQLITE)
_NCU = (
    "a report of Nsight Compute in its own format",
    "Print it with `ncu --import FILE --csv --page raw`",
)
_PERFETTO = (
    "a protobuf trace of Perfetto",
    "Give the same profiler's rocpd, CSV or JSON file (rocprofv3 --output-format rocpd), or "
    "convert it with `traceconv json`",
)
_BY_NAME = {
    ".nsys-rep": _NSYS,
    ".qdrep": _NSYS,
    ".ncu-rep": _NCU,
    ".pftrace": _PERFETTO,
    ".perfetto-trace": _PERFETTO,
    ".otf2": ("an OTF2 archive", "Record rocprofv3 with --output-format rocpd"),
}
"""Binary kinds whose first bytes say little."""
_CHROME: tuple[tuple[bytes, tuple[str, str]], ...] = (
    (rb'"Ascend Hardware"', ("a trace of an Ascend NPU", "Read it with its vendor's tools")),
    (
        rb'"highres-ticks"|"/(?:host|device):[A-Z]+',
        ("a Chrome trace of JAX's profiler", "Give the xplane.pb beside it"),
    ),
    (
        rb'"args":\{"desc":',
        ("the JSON of rpd2tracing", "Give the .rpd file that it was made from"),
    ),
    (
        rb'"BeginNs"\s*:',
        ("the results.json of rocprof v1", "Give the results.db or results.csv beside it"),
    ),
)
"""Chrome traces of other profilers, which would read as Kineto's without most of their content."""
OTHER_CHROME = re.compile(b"|".join(pattern for pattern, _ in _CHROME))
_BY_CONTENT: tuple[tuple[bytes, tuple[str, str]], ...] = (
    (rb"\APK\x03\x04", ("a zip archive", "Unpack it and give the trace within")),
    (rb"\A[\s\S]{257}ustar", ("a tar archive", "Unpack it and give the trace within")),
    (rb"\A(?:\x28\xb5\x2f\xfd|\xfd7zXZ\x00|BZh[1-9])", ("packed", "Unpack it first")),
    (rb"\ANVR\x00", _NCU),
    (rb"\A\x0a(?=[\s\S]{0,256}[\x00-\x08])", _PERFETTO),
    (
        rb"==\d+== +(?:NVPROF|Profiling (?:result|application))",
        ("output of nvprof", f"Record with torch.profiler or nsys profile. {_SQLITE}"),
    ),
    (
        rb"(?m)^ *Time ?\(%\) +Total Time",
        ("a report of nsys laid out for reading", "Print it with `nsys stats --format csv`"),
    ),
    (
        rb'(?m)^"?(?:Process ID|Kernel Name)"?,[^\n]*"?Invocations"?,',
        ("a summary of Nsight Compute", "Print it without --print-summary"),
    ),
    (
        rb"(?m)^ +Section: \w[^\n]*\n *-{5,} -{5,}|^==(?:PROF|ERROR|WARNING)== ",
        ("output of Nsight Compute without a CSV table", "Print it with `ncu --csv`"),
    ),
    (
        rb'\A"?(?:Index|Dispatch_ID)"?,[^\n]*"?Kernel_?Name"?,',
        ("a table of rocprof's or rocprofv2's counters", "Record them with rocprofv3 --pmc"),
    ),
    (
        rb'(?m)^"?(?:API )?Start ?\(',
        ("a timeline that nsys stats printed", "Give the .sqlite file that it wrote"),
    ),
    (
        rb'\A"?(?:Sample_Timestamp|Kernel_Id"?,"?Kernel_Name|Kernel_Name"?,"?Kernel_Id|Node_Id)',
        ("a list of rocprofv3 without kernel times", "Give the *_kernel_trace.csv beside it"),
    ),
    (
        rb'(?m)^"?(?:NVTX Range|Range|Name)"?,"?(?:Style|Total Proj|Projected Start)'
        rb"|^(?:Total(?: Size)? \(\w+\),Count|PID,TID,DevId,)|^SKIPPED: ",
        (
            "output of nsys stats without times of kernels, copies or calls",
            "Give the .sqlite file that it wrote beside the report",
        ),
    ),
)
"""A pattern of the first bytes, what the file is, and what to do."""


def unsupported(head: Head) -> str | None:
    r"""Return what a file is and what to give instead; None where its kind is not known.

    >>> unsupported(Head("x", b"PK\x03\x04..."))
    'is a zip archive, which cannot be read here. Unpack it and give the trace within.'
    """
    start = head.data[:_BYTES]
    json = _CHROME if start.lstrip()[:1] in (b"[", b"{") else ()
    found = [kind for pattern, kind in (*json, *_BY_CONTENT) if re.search(pattern, start)]
    found += [kind for ending, kind in _BY_NAME.items() if head.path.endswith(ending)]
    if not found:
        return None
    kind, advice = found[0]
    return f"is {kind}, which cannot be read here. {advice}."
