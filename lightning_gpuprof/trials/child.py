"""A child process of `try`: the program runs here with its changes, and can harm nothing.

`python -m lightning_gpuprof.trials.child REQUEST`. Functions of others are replaced in this process
and nowhere else: `Trainer.__init__`, what writes files (`Diverted`), and what `Blocks` replaces.
"""

import ctypes
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import torch

import lightning_gpuprof
from lightning_gpuprof.adapters.lightning import is_kind, moved_logger
from lightning_gpuprof.runtime.launch import change_trainers, run_program
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.trials.blocks import Blocks, ProgramEnded
from lightning_gpuprof.trials.diverted import Diverted
from lightning_gpuprof.trials.model import load
from lightning_gpuprof.trials.pairs import Block
from lightning_gpuprof.trials.processes import Request

_PR_SET_PDEATHSIG = 1
_LEFT_OUT = ("GpuProfCallback", "EarlyStopping", "Timer")
"""Callbacks that would profile, or end training."""
WATCHED_STEPS, WATCHED_S, MOST_WATCHED_S = 60, 5.0, 25.0


class Launch:
    """Lets every Trainer that a program makes train as a request says."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._watched: list[float] = []

    def options(self, kwargs: dict[str, Any]) -> None:
        """Change the arguments of a Trainer."""
        kwargs |= {"devices": 1, "num_nodes": 1, "fast_dev_run": False, "profiler": None}
        kwargs |= {"default_root_dir": self._request.folder, "num_sanity_val_steps": 0}
        if isinstance(kwargs.get("strategy", ""), str):
            kwargs["strategy"] = "auto"  # others start processes of the program itself
        kwargs |= self._request.settings.get("Trainer", {})

    def made(self, trainer: Any) -> None:
        """Let a Trainer write to the folder alone, and add what takes the time."""
        request = self._request
        trainer.loggers = [moved_logger(one, request.folder) for one in trainer.loggers]
        own = [one for one in trainer.callbacks if not any(is_kind(one, k) for k in _LEFT_OUT)]
        for one in own:
            if is_kind(one, "ModelCheckpoint") and one.dirpath is not None:
                one.dirpath = os.path.join(request.folder, "checkpoints")
        more = request.settings.get("callbacks", ())
        own += [getattr(lightning_gpuprof, name)() for name in more]
        if request.watch:
            settings: dict[str, Any] = {"log_dir": request.folder, "report": False}
            own.append(lightning_gpuprof.GpuProfCallback(console=False, **settings))
        elif trainer.limit_val_batches:
            trainer.limit_val_batches = 1  # not counted; what it logs may be needed
        ask = self._watch if request.watch else self._ask
        trainer.callbacks = [Blocks(request.settings, ask, warm=request.warm), *own]

    def _watch(self, block: Block) -> int:
        self._watched += [time.monotonic()] * (block.steps + 1)
        took_s = self._watched[-1] - self._watched[0]
        if took_s > (WATCHED_S if len(self._watched) >= WATCHED_STEPS else MOST_WATCHED_S):
            raise ProgramEnded
        return 10

    def _ask(self, block: Block) -> int:
        os.write(self._request.replies, msgspec.json.encode(block) + b"\n")
        order = os.read(self._request.orders, 16)  # one at a time, and short: it comes whole
        if not order:
            raise ProgramEnded  # the parent is gone
        return int(order)


def main(arguments: Sequence[str]) -> None:
    """Do what a request says, in a process that is killed as its parent ends (on Linux)."""
    request = msgspec.json.decode(arguments[0], type=Request)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != request.parent:
            sys.exit(1)
    Diverted(request.folder).install(Wrappers())
    launch = Launch(request)
    change_trainers(launch.options, launch.made)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    with suppress(ProgramEnded):
        if request.program[0] == "--functions":
            trainer, model, data = (load(spec)() for spec in request.program[1:])
            trainer.fit(model, data)
        else:
            run_program(request.program)


if __name__ == "__main__":
    main(sys.argv[1:])
