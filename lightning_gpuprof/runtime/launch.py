"""Runs a user's program in a child process of ours, and changes each Trainer that it makes."""

import os
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lightning_gpuprof.runtime.wrap import Wrappers


def change_trainers(
    change_arguments: Callable[[dict[str, Any]], object], on_made: Callable[[Any], object]
) -> None:
    """Call `change_arguments` before, and `on_made` after, each Trainer of this process is made."""

    def init(original: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
        change_arguments(kwargs)
        original(trainer, *args, **kwargs)
        on_made(trainer)

    for name in ("lightning.pytorch", "pytorch_lightning"):
        if find_spec(name.partition(".")[0]) is not None:
            # LightningCLI reads the Trainer's arguments from its signature, which stays.
            Wrappers().call_instead(import_module(name).Trainer, "__init__", init)


def run_program(program: Sequence[str]) -> None:
    """Run a script, or `-m` and a module, with its arguments, as Python would."""
    if program[0] == "-m":
        sys.argv, sys.path[0] = list(program[1:]), os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = list(program), os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")
