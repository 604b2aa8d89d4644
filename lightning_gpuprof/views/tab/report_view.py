"""The report's document as a view of the tab."""

from typing import Any

from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query


def report_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the document that `lightning-gpuprof report --json` prints."""
    return run.report(query)
