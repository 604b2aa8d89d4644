"""Reads statistics in CSV: rocprof's `results.stats.csv`, rocprofv3's `*_stats.csv`, `nsys stats`.

The two ROCm tools share a header; a row's kind follows from its name. `nsys stats` heads each
report with its own columns, and prints several below each other. Its headers changed with its
versions (`Time(%)` and `Average` before 2021.5) and with `--timeunit` (`Total Time (ms)`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lightning_gpuprof.traces.files import csv_header, integer, parse_csv, read_text, scaled
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.tables import NameStats, Tables

Row = dict[str, str]
_HEADER = re.compile(
    r"\s*\"?(?:Time ?\(%\)|(?:API )?Start ?\([a-z]+\)|Total(?: Size)? \([A-Za-z]+\)|PID|Row#"
    r"|NVTX Range|Range|(?:Range )?Name)\"?\s*,",
)
_MESSAGE = re.compile(
    r"(?:Processing |SKIPPED|NOTICE|WARNING|ERROR|Generating |Exporting | *\*\* )"
)
"""What `nsys stats` prints between its reports."""
_UNIT = re.compile(r"(.*?) ?\(([A-Za-z]+)\)$")


def reports(text: str) -> Iterator[list[str]]:
    """Yield the lines of each report, its header first."""
    block: list[str] = []
    for line in text.splitlines():
        starts = bool(_HEADER.match(line))
        if starts or not line.strip() or _MESSAGE.match(line):
            if block:
                yield block
            block = [line] if starts else []
        elif block:
            block.append(line)
    if block:
        yield block


def column(row: Row, title: str) -> tuple[str, str] | None:
    """Return a value and its unit from the column of this title: `Start (us)`, `Start(nsec)`."""
    for name, value in row.items():
        match = _UNIT.match(name)
        if match and match[1] == title:
            return value, match[2]
    return None


_ROCPROF = {"Name", "Calls", "TotalDurationNs"}
_KINDS = {
    "memory": r"(MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY)_|Copy(HostTo|DeviceTo)|FillBuffer"
    r"|hcCommandMarker",
    "domain": r"(HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG)_API|KERNEL_DISPATCH|MEMORY_COPY"
    r"|MEMORY_ALLOCATION|SCRATCH_MEMORY",
    "api": r"hip|hsa_|__hip|roctx|cuda|cuLaunch|cuMem|nccl|roc",
}
"""Names of rows in files of rocprof and rocprofv3 that are not kernels, by kind."""
_COUNTS = ("Instances", "Num Calls", "Calls", "Count", "Operations")
_NSYS_NAMES = ("Name", "Operation", "Range", "Event", "Style")
_ORDER = ("kernel", "memory", "api", "range")
"""The report of the first of these kinds is the main one; the others stand beside it."""


def matches(head: Head) -> bool:
    """Return whether a file has a header of statistics; `nsys stats` prints lines before it."""
    if csv_header(head.data) >= _ROCPROF:
        return True
    text = head.data.decode("utf-8", "replace")
    return any(map(_nsys_kind, reports(text)))


def read_tables(path: str) -> Tables:
    """Read every row; of a file with several reports of nsys, each report as a table."""
    warnings: list[str] = []
    text = read_text(path, warnings)
    if csv_header(text.encode()) >= _ROCPROF:
        stats = tuple(_rocprof(parse_csv(text, warnings)))
        return Tables("stats-csv", _kind(stats), stats=stats, warnings=tuple(warnings))
    return _nsys(text, warnings)


def _rocprof(rows: Iterator[Mapping[str, str]]) -> Iterator[NameStats]:
    for row in rows:
        count, total = integer(row["Calls"]), integer(row["TotalDurationNs"])
        if count is not None and total is not None:
            low, high = integer(row.get("MinNs")), integer(row.get("MaxNs"))
            yield NameStats(row["Name"], count, total, low, high)


def _kind(stats: tuple[NameStats, ...]) -> str:
    for kind, pattern in _KINDS.items():
        if stats and all(re.match(pattern, row.name) for row in stats):
            return kind
    return "kernel"


def _nsys(text: str, warnings: list[str]) -> Tables:
    blocks = [(kind, block) for block in reports(text) if (kind := _nsys_kind(block))]
    blocks.sort(key=lambda pair: _ORDER.index(pair[0]))
    tables = []
    for kind, block in blocks:
        rows = map(_nsys_row, parse_csv("\n".join(block), warnings))
        stats = tuple(row for row in rows if row is not None)
        tables.append(Tables("stats-csv", kind, stats=stats))
    if len(tables) > 1:
        others = ", ".join(table.kind for table in tables[1:])
        warnings.append(
            f"The file holds {len(tables)} reports; `stats` has that of {tables[0].kind} "
            f"statistics, `others` the rest ({others})."
        )
    return replace(tables[0], others=tuple(tables[1:]), warnings=tuple(warnings))


def _nsys_kind(block: list[str]) -> str | None:
    """Return what a report sums up, by its columns; None if it does not sum up times."""
    names = {name.strip().strip('"') for name in block[0].split(",")}
    if not (names & set(_COUNTS) and names & {"Time (%)", "Time(%)"}):
        return None
    if not any(name.startswith("Total Time (") for name in names):
        return None
    if names & {"Range", "Style"}:
        return "range"
    if "Operation" in names and "Category" not in names:
        return "memory"
    return "kernel" if names & {"Instances", "Category"} else "api"


def _nsys_row(fields: Mapping[str, str]) -> NameStats | None:
    row = {name: value.strip().strip('"') for name, value in fields.items()}
    if "kernel" not in row.get("Category", "kernel").lower():
        return None  # a report that mixes kernels with calls and copies
    name = next((row[title] for title in _NSYS_NAMES if row.get(title)), "")
    count = next((integer(row[title]) for title in _COUNTS if title in row), None)
    total_column = column(row, "Total Time")
    if count is None or total_column is None:
        return None
    total, unit = scaled(*total_column), total_column[1]
    if total is None:
        return None
    # Older versions have the columns `Minimum` and `Maximum`, in the unit of the total.
    low = scaled(*(column(row, "Min") or (row.get("Minimum", ""), unit)))
    high = scaled(*(column(row, "Max") or (row.get("Maximum", ""), unit)))
    return NameStats(name, count, total, low, high)
