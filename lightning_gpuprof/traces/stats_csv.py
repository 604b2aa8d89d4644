"""Reads statistics in CSV: rocprof's `results.stats.csv`, rocprofv3's `*_stats.csv`, `nsys stats`.

The two ROCm tools share a header; what a row is of is told from its name. `nsys stats` heads each
report with its own columns, and prints several below each other.
"""

from collections.abc import Iterator, Mapping

from lightning_gpuprof.traces.files import csv_header, integer, parse_csv, read_file
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.tables import NameStats, Tables

_ROCPROF = {"Name", "Calls", "TotalDurationNs"}
_NSYS = "Time (%)"
_API_PREFIXES = ("hip", "hsa_", "__hip", "roctx", "cuda", "cuLaunch", "cuMem")
_NSYS_KINDS = {"Instances": "kernel", "Num Calls": "api", "Count": "memory"}
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
    api = sum(row.name.startswith(_API_PREFIXES) for row in stats)
    copies = sum("COPY" in row.name for row in stats)
    if stats and api == len(stats):
        return "api"
    return "memory" if stats and copies == len(stats) else "kernel"


def _nsys_header(text: str) -> bool:
    return any(_is_header(line) for line in text.splitlines()[:200])


def _is_header(line: str) -> bool:
    return line.lstrip('"').startswith(_NSYS) and "," in line


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
    name = next((row[column] for column in _NSYS_NAMES if column in row), "")
    count = next((integer(row[c]) for c in _NSYS_KINDS if c in row), None)
    total = integer(row.get("Total Time (ns)"))
    if count is None or total is None:
        return None
    return NameStats(name, count, total, integer(row.get("Min (ns)")), integer(row.get("Max (ns)")))
