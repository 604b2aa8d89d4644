"""Runs scripts that train several ranks, and forks the ranks within such a script."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def run_script(script: Path, *arguments: object, timeout_s: float = 300) -> None:
    """Run a script to its end, which must be a good one."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout_s)
    assert done.returncode == 0, done.stderr[-3000:]


def fork_ranks(train: Callable[[int, int], object]) -> list[int]:
    """Fork two ranks, let each call `train(rank, port)`, and return their process ids."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in (0, 1):
        children.append(os.fork())
        if not children[-1]:
            train(rank, port)
            sys.exit()
    return children
