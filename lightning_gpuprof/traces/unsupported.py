"""Names files of kinds that are known but not read here, and says what to give instead."""

import re

from lightning_gpuprof.traces.sniff import Head

_BYTES = 1 << 14
_BY_NAME = {
    ".nsys-rep": "a report of Nsight Systems; export it with `nsys export --type sqlite`",
    ".qdrep": "a report of Nsight Systems; export it with `nsys export --type sqlite`",
    ".ncu-rep": "a report of Nsight Compute; print it with `ncu --import FILE --csv --page raw`",
    ".pftrace": "a protobuf trace of Perfetto; record rocprofv3 with --output-format rocpd",
    ".otf2": "an OTF2 archive; record rocprofv3 with --output-format rocpd",
}
"""Binary kinds whose first bytes say little."""
_CHROME = {
    rb'"highres-ticks"|"/(?:host|device):[A-Z]+': "a Chrome trace of JAX's profiler; give the "
    "xplane.pb beside it",
    rb'"args":\{"desc":': "the JSON of rpd2tracing; give the .rpd file that it was made from",
    rb'"BeginNs"\s*:': "the results.json of rocprof v1; give the results.db or results.csv "
    "beside it",
}
"""Chrome traces of other profilers, which would read as Kineto's without most of their content."""
OTHER_CHROME = re.compile(b"|".join(_CHROME))
_BY_CONTENT = {
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
    r"""Return what a file is and what to give instead; None where its kind is not known.

    >>> unsupported(Head("x", b"PK\x03\x04..."))
    'is packed; unpack it first.'
    """
    start = head.data[:_BYTES]
    json = _CHROME if start.lstrip()[:1] in (b"[", b"{") else {}
    found = [kind for pattern, kind in {**json, **_BY_CONTENT}.items() if re.search(pattern, start)]
    found += [kind for ending, kind in _BY_NAME.items() if head.path.endswith(ending)]
    return f"is {found[0]}." if found else None
