"""What a cycle's device did and waited for, from its trace's analysis: tables for the timeline."""

from typing import Any

from lightning_gpuprof.records.files import ANALYSIS_SUFFIX
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query
from lightning_gpuprof.views.tab.traces import pick_cycle

MAX_ROWS = 100
_LISTS = ("idle", "gaps", "categories", "copies", "syncs", "steps", "warnings")
_VALUES = (
    "device",
    "gpu",
    "launches",
    "sync_count",
    "sync_ns",
    "gemm_frac",
    "tensor_core_frac",
    "thin_kernels",
)


def device_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return one cycle's time split, idle time by cause, syncs and copies.

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
        **{name: (analysis.get(name) or [])[:MAX_ROWS] for name in _LISTS},
        **{name: analysis.get(name) for name in _VALUES},
    }
