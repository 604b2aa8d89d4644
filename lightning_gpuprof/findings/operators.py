"""Reads operators.toml: what is slow by its name, on sampled lines or in a trace."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts
from lightning_gpuprof.records.phases import Phase

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NODE = "autograd::engine::evaluate_function: "
MOST = 3


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A row of operators.toml.

    Args:
        name: What it is called in a title.
        callee: Regular expression of what a sampled line was in, at its begin.
        written: The same of the line's text, anywhere, where it was in nothing that has a name.
        operators: Names of operators in a trace, each in no other one of them.
        nodes: Names of the autograd graph's nodes that belong to it.
        share: The least share of the step, or of the wait for data, from which it is reported.
        saving: The least and the most share of its time that goes.
        advice: What to do.
        change: The same as code, where there is one.
        source: Where that is known from.
    """

    name: str
    callee: str = ""
    written: str = ""
    operators: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    share: float
    saving: tuple[float, float]
    advice: str
    change: str | None = None
    source: str

    def fits(self, line: LineCount) -> bool:
        """Tell whether a sampled line is one of these."""
        if line.callee:
            return bool(self.callee and re.match(self.callee, line.callee))
        return self.fits_text(line)

    def fits_text(self, line: LineCount) -> bool:
        """Tell whether a line is written as one of these."""
        return bool(self.written and re.search(self.written, line.source.split("#")[0]))


@dataclass(frozen=True)
class Seen:
    """A pattern that was seen on lines of a phase, with the line seen most and their share."""

    pattern: Pattern
    line: LineCount
    frac: float


@dataclass(frozen=True)
class Cost:
    """Time per step of a pattern's operators."""

    pattern: Pattern
    forward_ns: int
    backward_ns: int
    update_ns: int
    most: Operator
    """The one that takes longest."""


def patterns(table: str) -> tuple[Pattern, ...]:
    """Return the rows of one table: `loading` or `computing`."""
    return tuple(Pattern(**_lists_as_tuples(row)) for row in _tables()[table])


def seen_loading(lines: HostLines | None) -> tuple[Seen, ...]:
    """Return what the making of batches was seen in most, the longest first."""
    whole = 0 if lines is None else lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    at: dict[str, list[LineCount]] = {}
    rows = patterns("loading")
    for one in lines.of(Phase.DATA_WAIT) if lines else ():
        fitting = next((row for row in rows if row.fits(one)), None)
        if fitting is not None:
            at.setdefault(fitting.name, []).append(one)
    found = []
    for row in rows:
        ones = at.get(row.name, [])
        count = sum(one.count for one in ones)
        if count >= LEAST_COUNT and count >= row.share * whole:
            found.append(Seen(row, max(ones, key=lambda one: one.count), count / whole))
    return tuple(sorted(found, key=lambda one: -one.frac)[:MOST])


def in_trace(run: RunResults, facts: TraceFacts) -> list[Cost]:
    """Return what each pattern's operators take of a step."""
    found = (_cost(run, facts, row) for row in patterns("computing"))
    return [one for one in found if one is not None]


def _cost(run: RunResults, facts: TraceFacts, row: Pattern) -> Cost | None:
    operators = facts.operators
    used = [operators[name] for name in row.operators if name in operators]
    nodes = tuple(f"{NODE}{name}" for name in row.nodes)
    back = [op for name, op in operators.items() if nodes and name.startswith(nodes)]
    if not used and not back:
        return None
    most = max(used or back, key=lambda op: op.total_ns)
    if run.on_gpu:
        updating = [op for op in used if 2 * op.update_calls > op.calls]
        others = [op for op in used if op not in updating]
        return Cost(row, _device_ns(others), _device_ns(back), _device_ns(updating), most)
    return Cost(
        row,
        _within(run, Phase.FORWARD, sum(map(_forward_ns, used))),
        _within(run, Phase.BACKWARD, sum(op.total_ns for op in back)),
        _within(run, Phase.OPTIMIZER_STEP, sum(op.update_self_ns for op in used)),
        most,
    )


def _device_ns(ops: Iterable[Operator]) -> int:
    return round(sum(op.device_total_ns or 0.0 for op in ops))


def _forward_ns(op: Operator) -> float:
    """Return an operator's time outside the graph's nodes and the optimizer's update."""
    others = max(0.0, op.calls - op.backward_calls)
    share = max(0.0, others - op.update_calls) / others if others else 0.0
    return max(0.0, op.total_ns - op.backward_ns) * share


def _within(run: RunResults, phase: Phase, taken_ns: float) -> int:
    """Return no more than the median of a phase: one traced step may be unlike most."""
    stats = run.per_step(phase)
    return round(taken_ns if stats is None else min(taken_ns, stats.median_ns))


@cache
def _tables() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("lightning_gpuprof.findings").joinpath("operators.toml")
    tables: dict[str, list[dict[str, Any]]] = tomllib.loads(text.read_text("utf-8"))
    return tables


def _lists_as_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
