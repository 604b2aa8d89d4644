"""A child process of `try`: it runs the program with its changes and without its side effects.

`python -m lightning_gpuprof.trials.child REQUEST`. Functions of other packages are replaced in this
process only: `Trainer.__init__`, the functions that write files (`DivertedWrites`), and what
`BlockTraining` replaces.
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
from lightning_gpuprof.adapters.lightning import is_kind, moved_logger, silent_logger
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.launch import change_trainers, run_program
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.trials.blocks import BlockTraining, ProgramEnded
from lightning_gpuprof.trials.diverted import DivertedWrites
from lightning_gpuprof.trials.model import load_function
from lightning_gpuprof.trials.pairs import TrainedBlock
from lightning_gpuprof.trials.processes import Request

_PR_SET_PDEATHSIG = 1
REMOVED_CALLBACKS = ("GpuProfCallback", "EarlyStopping", "Timer")
"""Callbacks that would profile, or end training."""
WATCHED_STEPS, WATCHED_S, MAX_WATCHED_S = 60, 5.0, 25.0
"""The watched run lasts until it has had this many steps and seconds, but not longer than the
maximum."""
_WATCHED_BLOCK = 10


class ChildTrainers:
    """Changes every Trainer that the program makes as the request says."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._step_times: list[float] = []

    def options(self, kwargs: dict[str, Any]) -> None:
        """Change the arguments of a Trainer."""
        kwargs |= {"devices": 1, "num_nodes": 1, "fast_dev_run": False, "profiler": None}
        kwargs |= {"default_root_dir": self._request.folder, "num_sanity_val_steps": 0}
        if isinstance(kwargs.get("strategy", ""), str):
            kwargs["strategy"] = "auto"  # other strategies start processes of the program itself
        kwargs |= self._request.settings.trainer

    def made(self, trainer: Any) -> None:
        """Let a new Trainer write to the child's folder only, and add the trial's callbacks."""
        request = self._request
        settings = request.settings
        trainer.loggers = [
            silent_logger() if settings.without_loggers else moved_logger(logger, request.folder)
            for logger in trainer.loggers
        ]
        names = [type(callback).__name__ for callback in trainer.callbacks]
        if unknown := set(settings.without_callbacks).difference(names):
            raise ConfigError(f"The Trainer has no callback {unknown.pop()}, but {names}.")
        callbacks = []
        for name, callback in zip(names, trainer.callbacks, strict=True):
            if any(is_kind(callback, kind) for kind in REMOVED_CALLBACKS):
                continue
            if name in settings.without_callbacks:
                continue
            if is_kind(callback, "ModelCheckpoint") and callback.dirpath is not None:
                callback.dirpath = os.path.join(request.folder, "checkpoints")
            callbacks.append(callback)
        callbacks += [getattr(lightning_gpuprof, name)() for name in settings.callbacks]
        if request.watch:
            callbacks.append(
                lightning_gpuprof.GpuProfCallback(
                    log_dir=request.folder, report=False, console=False
                )
            )
            next_block = self._watch_on
        else:
            next_block = self._wait_for_order
            if trainer.limit_val_batches:
                # Validation is not counted, but callbacks may need a value that it logs.
                trainer.limit_val_batches = 1
        training = BlockTraining(settings, next_block, warm=request.warm)
        trainer.callbacks = [training, *callbacks]

    def _watch_on(self, block: TrainedBlock) -> int:
        """Go on until enough has been watched."""
        self._step_times += [time.monotonic()] * (block.steps + 1)
        watched_s = self._step_times[-1] - self._step_times[0]
        limit_s = WATCHED_S if len(self._step_times) >= WATCHED_STEPS else MAX_WATCHED_S
        if watched_s > limit_s:
            raise ProgramEnded
        return _WATCHED_BLOCK

    def _wait_for_order(self, block: TrainedBlock) -> int:
        os.write(self._request.replies, msgspec.json.encode(block) + b"\n")
        # The parent sends a short order only after a reply, so a read returns the whole of it.
        order = os.read(self._request.orders, 16)
        if not order:
            raise ProgramEnded  # the parent has closed the pipe or has ended
        return int(order)


def main(arguments: Sequence[str]) -> None:
    """Run the program of a request. On Linux this process is killed when its parent ends."""
    request = msgspec.json.decode(arguments[0], type=Request)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != request.parent:
            sys.exit(1)  # the parent ended before it was watched
    DivertedWrites(request.folder).install(Wrappers())
    trainers = ChildTrainers(request)
    change_trainers(trainers.options, trainers.made)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    with suppress(ProgramEnded):
        if request.program[0] == "--functions":
            trainer, model, data = (load_function(spec)() for spec in request.program[1:])
            trainer.fit(model, data)
        else:
            run_program(request.program)


if __name__ == "__main__":
    main(sys.argv[1:])
