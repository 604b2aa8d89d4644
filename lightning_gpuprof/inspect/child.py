"""The child process of `lightning-gpuprof inspect`, which runs a few steps of the user's script.

`python -m lightning_gpuprof.inspect.child RESULT STEPS script.py args...`
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from lightning_gpuprof.adapters.lightning import can_be_moved, is_kind, moved_logger
from lightning_gpuprof.inspect.inspector import InspectionDone, Inspector
from lightning_gpuprof.records.inspection import Inspection
from lightning_gpuprof.runtime.launch import change_trainers, run_program


@dataclass
class TrainerChanges:
    """Adds an inspector to every Trainer that the script makes, and keeps its result."""

    steps: int
    folder: str
    trainers: int = 0
    result: Inspection | None = None

    def options(self, kwargs: dict[str, Any]) -> None:
        """Change the arguments of a Trainer: one device, and files in a temporary folder only."""
        kwargs |= {"devices": 1, "num_nodes": 1, "fast_dev_run": False, "profiler": None}
        kwargs["default_root_dir"] = self.folder
        if not torch.cuda.is_available():
            # A script that is written for a GPU can be inspected on a machine without any.
            kwargs |= {"accelerator": "cpu", "strategy": "auto"}

    def made(self, trainer: Any) -> None:
        """Add the inspector to a new Trainer; turn validation and GpuProfCallback off.

        Loggers of files write to the temporary folder: an inspection is no run of the user's.

        The few steps of an inspection are too few for the figures of GpuProfCallback.
        """
        self.trainers += 1
        trainer.limit_val_batches = 0
        trainer.num_sanity_val_steps = 0
        trainer.loggers = [
            # A logger of another kind stays: its own lines may make the host wait.
            moved_logger(logger, self.folder) if can_be_moved(logger) else logger
            for logger in trainer.loggers
        ]
        inspector = Inspector(steps=self.steps, done=self._keep_result)
        others = [
            callback for callback in trainer.callbacks if not is_kind(callback, "GpuProfCallback")
        ]
        trainer.callbacks = [inspector, *others]

    def _keep_result(self, result: Inspection) -> None:
        self.result = result


def main(arguments: Sequence[str]) -> int:
    """Run the script and write the result; an exception of the script ends it as usual."""
    path, steps, *program = arguments
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        changes = TrainerChanges(int(steps), folder)
        change_trainers(changes.options, changes.made)
        if not torch.cuda.is_available():
            # Without a GPU torch.cuda.synchronize raises. The script should run as if it had one.
            torch.cuda.synchronize = lambda device=None: None
        try:
            with suppress(InspectionDone):
                run_program(program)
        finally:
            result = changes.result or Inspection(trainers=changes.trainers)
            Path(path).write_bytes(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
