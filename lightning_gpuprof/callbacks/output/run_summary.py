"""Has a long run summed up for TensorBoard when its fit has ended, so that it opens at once."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from lightning_gpuprof.callbacks.output.child_process import environment
from lightning_gpuprof.views.tab.summary import is_large

_STARTED: "list[subprocess.Popen[bytes]]" = []
"""Kept until they have ended: Python warns of a `Popen` that goes before its process does."""


def spawn(run_dir: str) -> Any:
    """Start a process that writes the summary; it outlives this one, and nobody waits for it."""
    _STARTED[:] = [process for process in _STARTED if process.poll() is None]
    process = subprocess.Popen(
        [sys.executable, "-m", "lightning_gpuprof.views.tab.summarise", run_dir],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )
    _STARTED.append(process)
    return process


def start_summary(run_dir: str, *, start: Callable[[str], Any] = spawn) -> bool:
    """Start the summary of a run that takes long to read, and tell whether it was.

    Where that fails TensorBoard makes the summary itself, when the run is first looked at.

    Args:
        run_dir: The run's log dir, on this machine's disks.
        start: Starts the work; tests pass a fake.
    """
    if "://" in run_dir or not is_large(run_dir):
        return False
    try:
        start(run_dir)
    except OSError:
        return False
    return True
