"""The profiler cycles of a run: their trace files, and what the analysis of each says."""

import os
from typing import Any

from lightning_gpuprof.records.files import ANALYSIS_SUFFIX
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError

MAX_ROWS = 2_000
"""Tables are sorted and searched in the page; a row is about 150 bytes."""
MAX_DEVICE_ROWS, MAX_ROOFLINE_ROWS = 100, 500
_DEVICE_LISTS = "idle idle_functions gaps categories copies syncs sync_kinds warnings".split()
_CYCLE = ("cycle", "first_step", "last_step", "trace_file")
_DEVICE_VALUES = (
    "device gpu launches sync_count sync_ns gemm_frac tensor_core_frac thin_kernels occupancy "
    "to_bytes".split()
)


def traces_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return every profiler cycle of the run with the state of its trace file."""
    cycles = []
    for rank, cycle in run.cycles():
        path = os.path.join(run.folder, os.path.basename(cycle.trace_file))
        there = run.fs.exists(path)
        cycles.append(
            {
                "rank": rank,
                **{key: getattr(cycle, key) for key in _CYCLE},
                "size_bytes": run.fs.size(path) if there else None,
                "analysed": run.analysis(cycle.trace_file) is not None,
            }
        )
    return {"cycles": cycles}


def operators_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the operators and kernels of one cycle."""
    found, analysis = _analysed(run, query)
    if analysis is None:
        return {**found, "operators": [], "kernels": []}
    tables = ("operators", "kernels", "modules", "lines")
    rows = {name: analysis.get(name, [])[:MAX_ROWS] for name in tables}
    return {**found, **rows, "warnings": analysis.get("warnings", [])}


def device_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return one cycle's time split, idle time by cause, syncs and copies."""
    found, analysis = _analysed(run, query)
    if analysis is None:
        return found
    lists = {name: (analysis.get(name) or [])[:MAX_DEVICE_ROWS] for name in _DEVICE_LISTS}
    steps = [{"dur_ns": mark.get("dur_ns") or 0} for mark in analysis.get("steps") or []]
    values = {name: analysis.get(name) for name in _DEVICE_VALUES}
    return {**found, **lists, "steps": steps, **values}


def roofline_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return one cycle's operators against its device's roofs, as far as they are known."""
    found, analysis = _analysed(run, query)
    if analysis is None:
        return found
    return {
        **found,
        "device": analysis.get("device"),
        "rows": (analysis.get("roofline") or [])[:MAX_ROOFLINE_ROWS],
        "roofs": analysis.get("roofs"),
    }


def _analysed(run: LoadedRun, query: Query) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return how a view of a cycle begins, and what the analysis kept beside its trace says."""
    wanted = pick_cycle(run, query, ANALYSIS_SUFFIX)
    analysis = None if wanted is None else run.analysis(wanted)
    state = "no-cycle" if wanted is None else "not-analysed" if analysis is None else "analysed"
    return {"trace": wanted, "state": state}, analysis


def pick_cycle(run: LoadedRun, query: Query, suffix: str) -> str | None:
    """Return the trace file that a request names by `trace`, None where no cycle has finished.

    The default is the last one of the first rank (or of the asked `rank`) that has a file with
    `suffix` beside it, else its last one.
    """
    # Record files come from anywhere: a name with a folder in it is none of ours.
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
