"""Has the summary of a large run written that nobody has written yet, once it has ended."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.records.files import LOCAL, record_files
from lightning_gpuprof.records.glance import glance
from lightning_gpuprof.tb_plugin.preparer import SUMMARY, Preparer, starter
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.runs import run_state
from lightning_gpuprof.views.tab.summary import files_of, is_large


class Summaries:
    """Starts a summary for each state of a run at most once; nobody waits for it.

    Args:
        start: Starts the work on a run's log dir; tests pass a fake.
    """

    def __init__(self, start: Callable[[str], Any] | None = None) -> None:
        self._preparer = Preparer(start or starter(SUMMARY))
        self._asked: dict[str, dict[str, tuple[int, int]]] = {}

    def want(self, run: LoadedRun) -> None:
        """Have a run summed up where that saves the next reader time."""
        if run.fs is not LOCAL or run.summary is not None or not is_large(run.path):
            return
        files = files_of(run.path)
        if self._asked.get(run.path) == files or not self._preparer.idle():
            return
        records = record_files(run.path)
        # A live run's would be out of date within seconds.
        if run_state(glance(records[min(records)])) != "live":
            self._asked[run.path] = files
            self._preparer.state(run.path)
