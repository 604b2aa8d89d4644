"""Trainings in forks of a process that has imported torch and Lightning, and used no GPU yet.

A fork saves the seconds of the imports. Two of them never train at the same time: the file `turn`
is locked from before the first use of the device to the end of training, so that only the report
at the end of a fit may overlap with the next one's start. Whoever dies lets go of it.
"""

import fcntl
import importlib
import logging
import os
import traceback
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

FORK = get_context("fork")
TRAINING_S = 150


def preload() -> None:
    """Import what every fork needs. It must not use a GPU, which would then be lost to forks."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch._dynamo  # noqa: F401  (which the first optimizer would import)
    import torchmetrics  # noqa: F401  (brings torch and Lightning)

    import lightning_gpuprof.callbacks  # noqa: F401


@dataclass(frozen=True)
class Timed:
    """What a training without a profiler gave: mean step in ms, and the last step's loss."""

    step_ms: float
    loss: float | None


def timed(name: str, fixed: bool, root: Path) -> Timed:
    """Train in a fork, slow or fixed."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_train, args=(theirs, name, fixed, root))
    child.start()
    theirs.close()
    try:
        if not ours.poll(TRAINING_S):
            child.kill()
        value: Timed = ours.recv()
    except EOFError:
        raise RuntimeError(f"{name} (fixed={fixed}) failed, see above") from None
    finally:
        child.join()
    return value


def _train(out: Connection, name: str, fixed: bool, root: Path) -> None:
    from case import Run, StepClock

    module, clock = _imported(name), StepClock()
    # What a step costs does not depend on the length of the run, but where a script says so.
    steps = module.STEPS if getattr(module, "GROWS", False) else module.STEPS // 2
    try:
        module.main(Run(steps, fixed, root, [clock]))
    except BaseException:
        traceback.print_exc()
        raise
    out.send(Timed(clock.mean_ns / 1e6, clock.loss))


def begin_look(name: str, root: Path, turn: Path) -> BaseProcess:
    """Train with the profiler in a fork, once it is its turn; `console.txt` takes what it says."""
    child = FORK.Process(target=_look, args=(name, root, turn))
    child.start()
    return child


def _look(name: str, root: Path, turn: Path) -> None:
    file = os.open(root / "console.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    with turn.open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # not `flock`, which its data workers would hold too
        try:
            import lightning as L
            from case import Run

            from lightning_gpuprof import GpuProfCallback

            class Passes(L.Callback):
                """Lets the next one train as soon as this one has: after the profiler's own end."""

                def on_train_end(self, *_: Any) -> None:
                    fcntl.lockf(lock, fcntl.LOCK_UN)

            module = _imported(name, quiet=False)
            module.main(Run(module.STEPS, False, root, [GpuProfCallback(), Passes()]))
        except BaseException:
            traceback.print_exc()
            raise


def _imported(name: str, *, quiet: bool = True) -> Any:
    import lightning as L
    import torch

    if quiet:
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    L.seed_everything(1, verbose=False)
    return importlib.import_module(name)
