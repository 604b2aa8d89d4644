"""Has analyses of an older version made anew, outside of any request."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.tb_plugin.preparer import ANALYSIS, Preparer, starter
from lightning_gpuprof.views.tab.loaded_run import LoadedRun


class Renewals:
    """Starts the analysis of one trace at a time; meanwhile the older one is shown.

    Args:
        start: Starts the work on a trace; tests pass a fake.
    """

    def __init__(self, start: Callable[[str], Any] | None = None) -> None:
        self._preparer = Preparer(start or starter(ANALYSIS))

    def want(self, run: LoadedRun) -> bool:
        """Have the first trace analysed that needs it; tells whether one does, and can be.

        What failed is not tried again: the older analysis stays.
        """
        states = (self._preparer.state(trace)["state"] for trace in run.older_analyses)
        return any(state == "preparing" for state in states)
