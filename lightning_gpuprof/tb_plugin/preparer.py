"""Prepares what nobody prepared, each once, in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

TIMELINE = "lightning_gpuprof.views.tab.timeline_tiles"
SUMMARY = "lightning_gpuprof.views.tab.summarise"
ANALYSIS = "lightning_gpuprof.views.tab.renew_analysis"
SNAPSHOT = "lightning_gpuprof.views.tab.memory_sites"
_LAST_LINE = 300


def start_process(path: str, module: str = TIMELINE) -> "subprocess.Popen[str]":
    """Start the module that prepares a file or run, behind what else the machine does."""
    return subprocess.Popen(
        [sys.executable, "-m", module, path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Not preexec_fn, which is not safe beside TensorBoard's threads.
        start_new_session=True,
    )


def starter(module: str) -> Callable[[str], Any]:
    """Return what starts a module on a path."""
    return lambda path: start_process(path, module)


class Preparer:
    """Starts at most one preparation at a time, and knows how each one went.

    Args:
        start: Starts the work on a path; tests pass a fake.
    """

    def __init__(self, start: Callable[[str], Any] = start_process) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._running: dict[str, Any] = {}
        self._failed: dict[str, str] = {}

    def state(self, path: str) -> dict[str, Any]:
        """Start preparing a trace where that is not done yet, and return how it stands."""
        with self._lock:
            self._collect()
            if path in self._failed:
                return {"state": "failed", "error": self._failed[path]}
            if not self._running:
                try:
                    self._running[path] = self._start(path)
                except OSError as error:
                    self._failed[path] = f"no process could be started: {error}"
            return {"state": "preparing"}

    def idle(self) -> bool:
        """Tell whether nothing is being prepared."""
        with self._lock:
            self._collect()
            return not self._running

    def _collect(self) -> None:
        for path, process in list(self._running.items()):
            if process.poll() is None:
                continue
            del self._running[path]
            said = (process.stderr.read() if process.stderr else "").strip()
            if process.returncode:
                lines = said.splitlines() or [f"the process ended with {process.returncode}"]
                self._failed[path] = lines[-1][:_LAST_LINE]
