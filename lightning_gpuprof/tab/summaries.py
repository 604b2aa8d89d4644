"""Summaries of runs for the table of all runs, each made once until the run's files change."""

import threading

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.run_table import Summary, summary
from lightning_gpuprof.report.charts.run_views import RunLine
from lightning_gpuprof.tab.loaded_runs import State, state_of_run
from lightning_gpuprof.tab.run_index import file_system_for


class Summaries:
    """Remembers the summary of each run, with the state of the files that it was made from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[State, Summary]] = {}

    def of(self, line: RunLine, *, read: bool) -> Summary | None:
        """Return a run's summary.

        Args:
            line: The run.
            read: Whether the run may be read. Otherwise an earlier summary is returned, or None.
        """
        known = self._known.get(line.path)
        if not read:
            return None if known is None else known[1]
        with self._lock:
            state = state_of_run(line.path)
            known = self._known.get(line.path)
            if known is None or known[0] != state:
                known = self._known[line.path] = state, _summary(line)
            return known[1]


def _summary(line: RunLine) -> Summary:
    run = LoadedRun(line.path, fs=file_system_for(line.path), name=line.name)
    try:
        return summary(run.document(Query({})))
    except (GpuProfError, OSError) as error:
        return {"finding": str(error)}
