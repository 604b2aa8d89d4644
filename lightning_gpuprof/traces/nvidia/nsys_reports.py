"""Finds the reports in what `nsys stats --format csv` prints: a header line and its rows each.

One file may hold one report or all that the command was asked for, one below the other, with
lines of progress between them (`Processing [...]`, `SKIPPED: ...`, ` ** CUDA GPU Trace (...):`),
and with or without empty lines.
"""

import re
from collections.abc import Iterator

from lightning_gpuprof.traces.files import parse_csv

Row = dict[str, str]
_HEADER = re.compile(
    r"\s*\"?(?:Time ?\(%\)|(?:API )?Start ?\([a-z]+\)|Total(?: Size)? \([A-Za-z]+\)|PID|Row#"
    r"|NVTX Range|Range|(?:Range )?Name)\"?\s*,",
)
_SAYS = re.compile(r"(?:Processing |SKIPPED|NOTICE|WARNING|ERROR|Generating |Exporting | *\*\* )")
_UNIT = re.compile(r"(.*?) ?\(([A-Za-z]+)\)$")


def reports(text: str) -> Iterator[list[str]]:
    r"""Yield the lines of each report, its header first.

    >>> [block[0] for block in reports("Processing [a]\nTime (%),Name\n9,a\n\nPID,TID\n")]
    ['Time (%),Name', 'PID,TID']
    """
    block: list[str] = []
    for line in text.splitlines():
        starts = bool(_HEADER.match(line))
        if starts or not line.strip() or _SAYS.match(line):
            if block:
                yield block
            block = [line] if starts else []
        elif block:
            block.append(line)
    if block:
        yield block


def header_of(block: list[str]) -> list[str]:
    """Return a report's column names."""
    return [name.strip().strip('"') for name in block[0].split(",")]


def rows_of(block: list[str], warnings: list[str]) -> Iterator[Row]:
    """Yield a report's rows by column name, without quotes around quoted names."""
    for row in parse_csv("\n".join(block), warnings):
        yield {name: value.strip().strip('"') for name, value in row.items()}


def column(row: Row, title: str) -> tuple[str, str] | None:
    """Return a value and its unit from the column of this title, whatever its unit.

    >>> column({"Start (us)": "1.5"}, "Start"), column({"Start(nsec)": "7"}, "Start")
    (('1.5', 'us'), ('7', 'nsec'))
    """
    for name, value in row.items():
        if (found := _UNIT.match(name)) and found[1] == title:
            return value, found[2]
    return None
