"""The operators of a cycle against the roofs of its device, as the trace's analysis has them."""

from typing import Any

from lightning_gpuprof.records.files import ANALYSIS_SUFFIX
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query
from lightning_gpuprof.views.tab.traces import pick_cycle

MAX_ROWS = 500


def roofline_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return one cycle's roofline; `rows` is empty where nothing could be placed on it.

    Raises:
        QueryError: The run has no such cycle.
    """
    wanted = pick_cycle(run, query, ANALYSIS_SUFFIX)
    if wanted is None:
        return {"trace": None, "state": "no-cycle"}
    analysis = run.analysis(wanted)
    if analysis is None:
        return {"trace": wanted, "state": "not-analysed"}
    return {
        "trace": wanted,
        "state": "analysed",
        "device": analysis.get("device"),
        "rows": (analysis.get("roofline") or [])[:MAX_ROWS],
        "roofs": analysis.get("roofs"),
    }
