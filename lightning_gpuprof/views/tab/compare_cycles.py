"""Two profiler cycles of one run side by side, from the analyses kept beside their traces."""

import os
from typing import Any

from lightning_gpuprof.analysis.compare.trace_diff import compare_traces
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX
from lightning_gpuprof.views.documents.trace_diff import diff_payload
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query, QueryError

MAX_ROWS = 20
"""The largest changes; the tables of each cycle have all."""


def compare_cycles_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return what changed from the cycle named by `base` to the one named by `trace`.

    By default the last analysed cycle of the lowest rank against the first.

    Raises:
        QueryError: The run has no such analysed cycle.
    """
    cycles = [
        {"trace": cycle.trace_file, "rank": rank, "cycle": cycle.cycle}
        for rank, cycle in run.cycles()
        if _has_analysis(run, cycle.trace_file)
    ]
    names = [str(one["trace"]) for one in cycles]
    if len(names) < 2:
        return {"state": "too-few", "cycles": cycles}
    own = [str(one["trace"]) for one in cycles if one["rank"] == cycles[0]["rank"]]
    base = _picked(run, query.text("base", own[0]), names)
    new = _picked(run, query.text("trace", own[-1] if len(own) > 1 else names[-1]), names)
    found = _diff(run, base, new)
    cut = {key: value[:MAX_ROWS] for key, value in found.items() if isinstance(value, list)}
    return {"state": "compared", "cycles": cycles, "base": base, "trace": new, **found, **cut}


def _has_analysis(run: LoadedRun, name: str) -> bool:
    # Record files come from anywhere: a name with a folder in it is none of ours.
    plain = os.path.basename(name) == name
    return plain and run.fs.exists(os.path.join(run.folder, name + ANALYSIS_SUFFIX))


def _picked(run: LoadedRun, name: str, names: list[str]) -> str:
    if name not in names:
        raise QueryError(f"{run.name} has no analysed trace {name[:80]!r}.")
    return name


def _diff(run: LoadedRun, base: str, new: str) -> dict[str, Any]:
    try:
        return diff_payload(compare_traces(run.analysis(base) or {}, run.analysis(new) or {}))
    except (KeyError, TypeError) as error:
        raise QueryError(
            f"The analyses of {base[:80]} and {new[:80]} cannot be compared ({error!r}). Make them "
            "anew with `lightning-gpuprof analyze`."
        ) from error
