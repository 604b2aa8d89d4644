"""Operations that are known to be slow, and what to do instead: the rows of operators.toml."""

import re
from dataclasses import dataclass
from functools import cache

from msgspec import Struct

from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT, LineTime
from lightning_gpuprof.findings.tables import read_toml
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import Phase

MIN_FRAC = 0.2
"""An operation with a smaller share of the wait for data is one of many and is not named."""
MOST = 3
OWN_WORKERS = "own worker processes"
"""The name of the rows about worker processes that the program starts itself."""


class Pattern(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of operators.toml.

    Args:
        callee: A regular expression for what a sampled line called, such as `json.loads`.
        written: A regular expression for the line's text, where it called nothing with a name.
        operators: Names of torch operators in a trace.
        advice: What to do instead; empty in rows about worker processes, whose advice is the
            list of `worker_processes`.
        change: The change as code to paste.
        source: Where the advice is from.
    """

    name: str
    callee: str = ""
    written: str = ""
    operators: tuple[str, ...] = ()
    advice: str = ""
    change: str | None = None
    source: str

    def fits(self, line: LineCount | LineTime) -> bool:
        """Return whether a sampled line was inside such an operation, not merely beside it."""
        if line.callee and self.callee:
            return re.match(self.callee, line.callee) is not None
        if not self.written:
            return False
        match = re.search(self.written, line.source.split("#")[0])
        return match is not None and line.operation in re.findall(r"\w+|/", match[0])

    @property
    def whole_advice(self) -> str:
        """The row's advice, or the list of advice on worker processes."""
        return self.advice or workers_advice()


class WorkersAdvice(Struct, frozen=True, forbid_unknown_fields=True):
    """One advice on worker processes that the program starts itself, and what it takes."""

    advice: str
    impact: str
    difficulty: str
    risk: str


class Operators(Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of operators.toml."""

    loading: tuple[Pattern, ...]
    """Matched with sampled lines that make batches."""
    computing: tuple[Pattern, ...]
    """Matched with the costliest line of the step, or with the costliest operator of a trace."""
    worker_processes: tuple[WorkersAdvice, ...]
    """In order of effort."""


@dataclass(frozen=True)
class SampledOperation:
    """A pattern that sampled lines fit.

    Args:
        line: The line with the most samples among them.
        frac: The share of all samples in the phase.
    """

    pattern: Pattern
    line: LineCount
    frac: float


@cache
def operators() -> Operators:
    """Return the tables of operators.toml."""
    return read_toml("operators.toml", Operators)


def workers_advice() -> str:
    """Return what to do about waits for the program's own worker processes, by effort."""
    steps = [
        f"{number}. {row.advice} ({row.impact} impact, {row.difficulty}, {row.risk})"
        for number, row in enumerate(operators().worker_processes, 1)
    ]
    return f"For your own worker processes, in order of effort: {'; '.join(steps)}."


def loading_operations(lines: HostLines | None) -> tuple[SampledOperation, ...]:
    """Return the operations that took most of making batches, the longest first.

    A line counts for the first row that it fits. Lines whose callee is known fit only rows that
    name a callee.
    """
    if lines is None:
        return ()
    whole = lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    rows = operators().loading
    fitting: dict[str, list[LineCount]] = {row.name: [] for row in rows}
    for line in lines.of(Phase.DATA_WAIT):
        candidates = (row for row in rows if row.callee or not line.callee)
        row = next((row for row in candidates if row.fits(line)), None)
        if row is not None:
            fitting[row.name].append(line)
    sampled = []
    for row in rows:
        count = sum(line.count for line in fitting[row.name])
        if count >= LEAST_COUNT and count >= MIN_FRAC * whole:
            longest = max(fitting[row.name], key=lambda line: line.count)
            sampled.append(SampledOperation(row, longest, count / whole))
    return tuple(sorted(sampled, key=lambda operation: -operation.frac)[:MOST])
