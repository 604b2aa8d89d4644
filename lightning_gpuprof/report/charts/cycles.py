"""The profiler cycles of a run: their trace files, and which of them a request names."""

import os
from typing import Literal

from msgspec import Struct

from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError

CycleState = Literal[
    "no-cycle",
    "not-analysed",
    "being-analysed",
    "analysed",
    "not-prepared",
    "preparing",
    "prepared",
    "failed",
]
"""How far the data of a cycle's view are: a separate process analyses a trace once, and once
prepares (lays out) its timeline."""


class Waiting(Struct, frozen=True):
    """The answer while a separate process is still making the data."""

    state: Literal["preparing", "failed"]
    error: str | None = None


class CycleLine(Struct, frozen=True):
    """A finished profiler cycle and its trace file."""

    rank: int
    cycle: int
    first_step: int
    last_step: int
    trace_file: str
    size_bytes: int | None
    """None if the file is gone."""
    analysed: bool


class Cycles(Struct, frozen=True):
    """Every finished profiler cycle of a run, in the order written."""

    cycles: tuple[CycleLine, ...]


def cycles_view(run: LoadedRun, query: Query) -> Cycles:
    """Return every profiler cycle of the run with the state of its trace file."""
    lines = []
    for rank, cycle in run.cycles():
        path = os.path.join(run.folder, os.path.basename(cycle.trace_file))
        line = CycleLine(
            rank=rank,
            cycle=cycle.cycle,
            first_step=cycle.first_step,
            last_step=cycle.last_step,
            trace_file=cycle.trace_file,
            size_bytes=run.fs.size(path) if run.fs.exists(path) else None,
            analysed=run.analysis(cycle.trace_file) is not None,
        )
        lines.append(line)
    return Cycles(tuple(lines))


def pick_cycle(run: LoadedRun, query: Query, suffix: str) -> str | None:
    """Return the trace file that a request names by `trace`; None if no cycle has finished.

    By default it is the last cycle of `rank` (or of the first rank) that has a file with `suffix`
    beside it; if there is none, the last cycle of that rank.
    """
    # Record files may be forged: this package writes no name with a folder in it.
    cycles = [
        (rank, cycle)
        for rank, cycle in run.cycles()
        if os.path.basename(cycle.trace_file) == cycle.trace_file
    ]
    if wanted := query.text("trace"):
        if wanted not in {cycle.trace_file for _, cycle in cycles}:
            raise QueryError(f"{run.name} has no trace file {wanted[:80]!r}.")
        return wanted
    if not cycles:
        return None
    first = min(rank for rank, _ in cycles)
    asked = query.integer("rank", default=first, low=0, high=2**31)
    names = [cycle.trace_file for rank, cycle in cycles if rank == asked] or [
        cycle.trace_file for rank, cycle in cycles if rank == first
    ]
    beside = set(run.fs.listdir(run.folder))
    done = [name for name in names if name + suffix in beside]
    return (done or names)[-1]
