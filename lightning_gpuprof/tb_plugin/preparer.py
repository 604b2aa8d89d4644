"""Prepares traces for the timeline that nobody prepared: in a process of its own, once each."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

_MODULE = "lightning_gpuprof.views.timeline_tiles"
_LAST_LINE = 300


def start_process(path: str) -> "subprocess.Popen[str]":
    """Start preparing a trace file, behind what else the machine does."""
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Not preexec_fn, which is not safe beside TensorBoard's threads.
        start_new_session=True,
    )


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

    def _collect(self) -> None:
        for path, process in list(self._running.items()):
            if process.poll() is None:
                continue
            del self._running[path]
            said = (process.stderr.read() if process.stderr else "").strip()
            if process.returncode:
                lines = said.splitlines() or [f"the process ended with {process.returncode}"]
                self._failed[path] = lines[-1][:_LAST_LINE]
