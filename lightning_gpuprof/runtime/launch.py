"""Runs the user's program in a child process, and changes the Trainers that it creates."""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lightning_gpuprof.runtime.wrap import Wrappers

_GRACE_S = 5


def change_trainers(
    change_arguments: Callable[[dict[str, Any]], object], on_made: Callable[[Any], object]
) -> None:
    """Change the arguments of all Trainers that this process creates from now on.

    Args:
        change_arguments: Receives the keyword arguments of a Trainer and may change them.
        on_made: Receives every new Trainer.
    """

    def init(original: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
        change_arguments(kwargs)
        original(trainer, *args, **kwargs)
        on_made(trainer)

    for name in ("lightning.pytorch", "pytorch_lightning"):
        if find_spec(name.partition(".")[0]) is not None:
            # The class keeps its signature, from which LightningCLI reads the arguments.
            Wrappers().call_instead(import_module(name).Trainer, "__init__", init)


def run_program(program: Sequence[str]) -> None:
    """Run a program as `python` would: a script or `-m` with a module, then the arguments."""
    if program[0] == "-m":
        sys.argv, sys.path[0] = list(program[1:]), os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = list(program), os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


def run_child(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a process to its end, then kill whatever is left of it and its workers.

    Its output goes to stderr. Returns its exit status.

    Args:
        command: The program and its arguments.
        environment: Variables to set in addition to this process's own.
    """
    # It gets a process group of its own, with its workers.
    child = subprocess.Popen(
        command, stdout=2, env={**os.environ, **(environment or {})}, start_new_session=True
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
        raise
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
