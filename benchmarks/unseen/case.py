"""What the scripts of this folder share: their command line, and a clock that is no profiler."""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import torch

SKIPPED_STEPS = 20


class StepClock(L.Callback):
    """Takes the wall time of the whole loop from the end of the 20th step to the end of training.

    Validation, checkpoints and epoch ends are in it: a user waits for these too. At both ends the
    work that a GPU has been given is waited for. `loss` is the last step's, where it returned one.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.mean_ns: float | None = None
        self.loss: float | None = None
        self._start_ns = 0
        self._outputs: Any = None

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.steps += 1
        self._outputs = outputs
        if self.steps == SKIPPED_STEPS:
            self._start_ns = _all_done_ns()

    def on_train_end(self, *_: Any) -> None:
        counted = self.steps - SKIPPED_STEPS
        if counted > 0:
            self.mean_ns = (_all_done_ns() - self._start_ns) / counted
        if isinstance(self._outputs, dict) and "loss" in self._outputs:
            self.loss = float(self._outputs["loss"])


def _all_done_ns() -> int:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter_ns()


def sized(gpu: Any, cpu: Any) -> Any:
    """Return the sizes for a GPU where there is one, else those with which a CPU is done soon."""
    return gpu if torch.cuda.is_available() else cpu


@dataclass
class Run:
    """How a script is to run this time.

    Args:
        steps: Training steps.
        fixed: Whether the planted cause is mended.
        root: Folder for what the Trainer writes.
        callbacks: Added to the script's own: the profiler or a clock.
    """

    steps: int
    fixed: bool
    root: Path
    callbacks: list[L.Callback] = field(default_factory=list)

    @property
    def trainer(self) -> dict[str, Any]:
        """Return the Trainer's arguments that are the same in every script."""
        return {
            "max_steps": self.steps,
            "max_epochs": -1,
            "accelerator": "auto",
            "default_root_dir": self.root,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }


def arguments(steps: int) -> Run:
    """Read the command line of a script whose run has that many steps by default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true", help="run it with its cause mended")
    parser.add_argument("--profile", action="store_true", help="add GpuProfCallback")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--root", type=Path, default=Path("runs"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    L.seed_everything(1, verbose=False)
    callbacks: list[L.Callback] = []
    if options.profile:
        from lightning_gpuprof import GpuProfCallback

        callbacks = [GpuProfCallback()]
    return Run(options.steps, options.fixed, options.root, callbacks)
