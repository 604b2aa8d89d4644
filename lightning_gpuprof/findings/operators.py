"""Reads operators.toml, operations that are slow by their name, and the texts of advice.toml."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT, LineTime
from lightning_gpuprof.records.phases import Phase

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MIN_FRAC = 0.2
"""Of the wait for data: an operation with less is one of many."""
MOST = 3
OWN_WORKERS = "own worker processes"


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A row of operators.toml."""

    name: str
    callee: str = ""
    written: str = ""
    operators: Sequence[str] = ()
    advice: str
    change: str | None = None
    source: str

    def fits(self, line: LineCount | LineTime) -> bool:
        """Tell whether a sampled line was seen in such an operation, not beside it."""
        if line.callee and self.callee:
            return re.match(self.callee, line.callee) is not None
        found = re.search(self.written, line.source.split("#")[0]) if self.written else None
        return found is not None and line.operation in re.findall(r"\w+|/", found[0])


@dataclass(frozen=True)
class Seen:
    """A pattern that was seen on lines of a phase, with the line seen most and their share."""

    pattern: Pattern
    line: LineCount
    frac: float


def patterns(table: str) -> tuple[Pattern, ...]:
    """Return the rows of one table: `loading` or `computing`."""
    rows, usual = tables("operators.toml")[table], {"advice": workers_advice()}
    return tuple(Pattern(**(usual | row)) for row in rows)


def workers_advice() -> str:
    """Return what to do about waits for worker processes of the program's own, by effort."""
    steps = [
        f"{number}. {row['advice']} ({row['impact']} impact, {row['difficulty']}, {row['risk']})"
        for number, row in enumerate(tables("advice.toml")["workers"], 1)
    ]
    return f"For your own worker processes, in order of effort: {'; '.join(steps)}."


def seen_loading(lines: HostLines | None) -> tuple[Seen, ...]:
    """Return the operations seen most while batches were made."""
    whole = 0 if lines is None else lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    at: dict[str, list[LineCount]] = {}
    rows = patterns("loading")
    for one in lines.of(Phase.DATA_WAIT) if lines else ():
        named = (row for row in rows if row.callee or not one.callee)
        fitting = next((row for row in named if row.fits(one)), None)
        if fitting is not None:
            at.setdefault(fitting.name, []).append(one)
    found = []
    for row in rows:
        ones = at.get(row.name, [])
        count = sum(one.count for one in ones)
        if count >= LEAST_COUNT and count >= MIN_FRAC * whole:
            found.append(Seen(row, max(ones, key=lambda one: one.count), count / whole))
    return tuple(sorted(found, key=lambda one: -one.frac)[:MOST])


@cache
def tables(name: str) -> dict[str, Any]:
    """Return the tables of a TOML file of this room."""
    text = resources.files("lightning_gpuprof.findings").joinpath(name)
    found: dict[str, Any] = tomllib.loads(text.read_text("utf-8"))
    return found
