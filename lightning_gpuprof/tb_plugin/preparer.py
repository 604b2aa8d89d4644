"""Makes the files that views lack, one at a time, each in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from lightning_gpuprof.views.tab.loaded_run import LoadedRun

_LAST_LINE = 300


def start_process(kind: str, path: str) -> "subprocess.Popen[str]":
    """Start a process that makes a kind of file from the file at a path: `views.tab.prepare`."""
    return subprocess.Popen(
        [sys.executable, "-m", "lightning_gpuprof.views.tab.prepare", kind, path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


class Preparer:
    """Starts at most one process at a time, and knows how each ended.

    Args:
        start: Starts the work of a kind on a path; tests pass a fake.
    """

    def __init__(self, start: Callable[[str, str], Any] = start_process) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Any] = {}
        self._failed: dict[tuple[str, str], str] = {}

    def state(self, kind: str, path: str) -> dict[str, Any]:
        """Start the work where nothing else is running, and return how it stands.

        Work that failed is not tried again.
        """
        work = kind, path
        with self._lock:
            self._collect()
            if not self._running and work not in self._failed:
                try:
                    self._running[work] = self._start(kind, path)
                except OSError as error:
                    self._failed[work] = f"no process could be started: {error}"
            if work in self._failed:
                return {"state": "failed", "error": self._failed[work]}
            return {"state": "preparing"}

    def analyse(self, run: LoadedRun) -> None:
        """Have the first trace of a run analysed that needs it; a later request starts the next."""
        for trace in run.stale_traces:
            if self.state("analysis", trace)["state"] == "preparing":
                return

    def _collect(self) -> None:
        for work, process in list(self._running.items()):
            if process.poll() is None:
                continue
            del self._running[work]
            _, said = process.communicate()
            if process.returncode:
                lines = said.strip().splitlines() or [
                    f"the process ended with {process.returncode}"
                ]
                self._failed[work] = lines[-1][:_LAST_LINE]
