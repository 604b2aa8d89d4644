"""Reads statistics in CSV: rocprof's `results.stats.csv`, rocprofv3's `*_stats.csv`, `nsys stats`.

The two ROCm tools share a header; what a row is of is told from its name. `nsys stats` heads each
report with its own columns, and prints several below each other. Its headers changed with its
versions (`Time(%)` and `Average` before 2021.5) and with `--timeunit` (`Total Time (ms)`).
"""

import re
from collections.abc import Iterator, Mapping

from lightning_gpuprof.traces.files import csv_header, integer, parse_csv, read_file, scaled
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.tables import NameStats, Tables

_ROCPROF = {"Name", "Calls", "TotalDurationNs"}
_NSYS = re.compile(r'"?Time ?\(%\)"?,')
_API_PREFIXES = ("hip", "hsa_", "__hip", "roctx", "cuda", "cuLaunch", "cuMem")
_DOMAINS = {"HIP_API", "HSA_API", "MARKER_API", "KERNEL_DISPATCH", "MEMORY_COPY", "SCRATCH_MEMORY"}
"""What rocprofv3's `*_domain_stats.csv` sums up over; others begin with one of these."""
_NSYS_KINDS = {
    "Instances": "kernel",
    "Num Calls": "api",
    "Calls": "api",
    "Count": "memory",
    "Operations": "memory",
}
"""The column of counts differs by report: kernels, API calls, memory operations."""
_NSYS_NAMES = ("Name", "Operation", "Range", "Style")


def matches(head: Head) -> bool:
    """Tell statistics by their header, which `nsys stats` may print after other lines."""
    return csv_header(head.data) >= _ROCPROF or _nsys_header(head.data.decode("utf-8", "replace"))


def read_tables(path: str) -> Tables:
    """Read every row; of a file with several reports of nsys, the first of each kind."""
    warnings: list[str] = []
    text = read_file(path, warnings).decode("utf-8-sig", "replace")
    if _nsys_header(text):
        kind, stats = _nsys(text, warnings)
    else:
        stats = tuple(_rocprof(parse_csv(text, warnings)))
        kind = _kind(stats)
    return Tables("stats-csv", kind, stats=stats, warnings=tuple(warnings))


def _rocprof(rows: Iterator[Mapping[str, str]]) -> Iterator[NameStats]:
    for row in rows:
        count, total = integer(row["Calls"]), integer(row["TotalDurationNs"])
        if count is not None and total is not None:
            low, high = integer(row.get("MinNs")), integer(row.get("MaxNs"))
            yield NameStats(row["Name"], count, total, low, high)


def _kind(stats: tuple[NameStats, ...]) -> str:
    if stats and all(row.name.startswith(tuple(_DOMAINS)) for row in stats):
        return "domain"
    api = sum(row.name.startswith(_API_PREFIXES) for row in stats)
    copies = sum("COPY" in row.name for row in stats)
    if stats and api == len(stats):
        return "api"
    return "memory" if stats and copies == len(stats) else "kernel"


def _nsys_header(text: str) -> bool:
    return any(_is_header(line) for line in text.splitlines()[:200])


def _is_header(line: str) -> bool:
    return bool(_NSYS.match(line))


def _nsys(text: str, warnings: list[str]) -> tuple[str, tuple[NameStats, ...]]:
    blocks = list(_nsys_blocks(text))
    kinds = [_nsys_kind(block[0]) for block in blocks]
    wanted = "kernel" if "kernel" in kinds else kinds[0]
    if len(blocks) > 1:
        warnings.append(
            f"The file holds {len(blocks)} reports; the first of {wanted} statistics is read."
        )
    rows = parse_csv("\n".join(blocks[kinds.index(wanted)]), warnings)
    return wanted, tuple(row for row in map(_nsys_row, rows) if row)


def _nsys_blocks(text: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in text.splitlines():
        if _is_header(line):
            if block:
                yield block
            block = [line]
        elif block and line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _nsys_kind(header: str) -> str:
    return next((kind for column, kind in _NSYS_KINDS.items() if column in header), "api")


def _nsys_row(row: Mapping[str, str]) -> NameStats | None:
    if "kernel" not in row.get("Category", "kernel").lower():
        return None  # a report that mixes kernels with calls and copies
    name = next((row[column] for column in _NSYS_NAMES if column in row), "")
    count = next((integer(row[c]) for c in _NSYS_KINDS if c in row), None)
    total, unit = _total(row)
    if count is None or total is None:
        return None
    low, high = (
        next((scaled(row[c], unit) for c in (f"{short} ({unit})", long) if c in row), None)
        for short, long in (("Min", "Minimum"), ("Max", "Maximum"))
    )
    return NameStats(name, count, total, low, high)


def _total(row: Mapping[str, str]) -> tuple[int | None, str]:
    """Return the total in ns, and the unit that the file has it in."""
    for name, value in row.items():
        if name.startswith("Total Time ("):
            unit = name[len("Total Time (") :].rstrip(")")
            return scaled(value, unit), unit
    return None, "ns"
