"""Reads the CSV of NVIDIA Nsight Compute (`ncu --csv`), in its long and its wide form.

Long (`--page details`): a row per launch and metric, advice of its rules in rows of their own.
Wide (`--page raw`, and what the graphical tool exports): a row per launch, a column per metric,
and a second row that holds units. Lines before the header (`==PROF== ...`) are skipped. Values may
carry thousands separators, or a decimal comma, which the digits behind it show.
"""

import math
import re

from lightning_gpuprof.traces.files import csv_rows, integer, parse_csv, read_text
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.tables import Counter, Tables

_LONG = {"ID", "Kernel Name", "Metric Name", "Metric Value"}
_NAMES = ("Kernel Name", "Demangled Name", "Function Name")
_LAUNCH = {
    *("ID", "Process ID", "Process Name", "Host Name", "Context", "Stream", "Block Size"),
    *("Grid Size", "Device", "Device Name", "CC", "Kernel Time", "Kernel Mangled Name"),
    *("Issues Detected", "Invocations", "Section Name", "Mangled Name", *_NAMES),
}
"""Columns that describe the launch of a row; others are metrics, except for NVTX ranges."""
_RANGE = "_Range:"
_FIRST = re.compile(r'^"?(?:ID|Process ID|Process Name|Kernel Name)"?,.*', re.MULTILINE)
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_DOTTED_GROUPS = re.compile(r"[-+]?\d{1,3}(\.\d{3})*,\d+")


def matches(head: Head) -> bool:
    """Return whether a file has a header line with a launch's id and kernel name."""
    return _header_start(head.data.decode("utf-8", "replace")) is not None


def read_tables(path: str) -> Tables:
    """Read every metric of every launch; rows of advice are left out."""
    warnings: list[str] = []
    text = read_text(path, warnings)
    body = text[_header_start(text) or 0 :]
    header = _fields(body)
    long = _LONG <= header.keys()
    counters = _long(header["Metric Value"] + 1, body, warnings) if long else _wide(body, warnings)
    return Tables("ncu-csv", "counters", counters=tuple(counters), warnings=tuple(warnings))


def number(text: str) -> float | str:
    """Read a value as ncu writes it, in either locale; other text stays text.

    >>> number("4,963,609,951.19"), number("12,5"), number("1.234,5"), number("(256, 1, 1)")
    (4963609951.19, 12.5, 1234.5, '(256, 1, 1)')
    """
    plain = text.strip()
    if _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    elif _DOTTED_GROUPS.fullmatch(plain):
        plain = plain.replace(".", "").replace(",", ".")
    try:
        value = float(plain)
    except ValueError:
        return text
    return value if math.isfinite(value) else text  # JSON has no numbers for nan and inf


def _header_start(text: str) -> int | None:
    """Return where the header line begins: the first that names launches and kernels."""
    for match in _FIRST.finditer(text):
        header = _fields(match[0]).keys()
        if "ID" in header and header & set(_NAMES):
            return match.start()
    return None


def _fields(text: str) -> dict[str, int]:
    """Return the positions of the columns in the first line."""
    line = next(csv_rows(text.split("\n", 1)[0].strip()), None) or []
    return {name.strip(): index for index, name in enumerate(line)}


def _long(needed: int, body: str, warnings: list[str]) -> list[Counter]:
    # A metric's row ends with its value; the columns of advice come after it.
    return [
        Counter(
            launch=integer(row["ID"]) or 0,
            kernel=row["Kernel Name"],
            name=row["Metric Name"],
            value=number(row["Metric Value"]),
            unit=row.get("Metric Unit", ""),
            section=row.get("Section Name", ""),
        )
        for row in parse_csv(body, warnings, needed=needed)
        if row["Metric Name"]
    ]


def _wide(body: str, warnings: list[str]) -> list[Counter]:
    rows = list(parse_csv(body, warnings))
    units = rows.pop(0) if rows and integer(rows[0]["ID"]) is None else {}
    name_column = next((name for name in _NAMES if rows and name in rows[0]), _NAMES[0])
    return [
        Counter(
            launch=integer(row["ID"]) or 0,
            kernel=row[name_column],
            name=name,
            value=number(value),
            unit=units.get(name, ""),
        )
        for row in rows
        for name, value in row.items()
        if value and name not in _LAUNCH and _RANGE not in name
    ]
