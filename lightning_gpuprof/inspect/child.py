"""The child process of `lightning-gpuprof inspect`: the script runs here for a few steps.

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

from lightning_gpuprof.adapters.lightning import is_kind
from lightning_gpuprof.inspect.inspector import InspectionDone, Inspector
from lightning_gpuprof.records.inspection import Inspection
from lightning_gpuprof.runtime.launch import change_trainers, run_program


@dataclass
class Inspecting:
    """Puts an inspector into every Trainer that a script makes, and keeps its result."""

    steps: int
    folder: str
    trainers: int = 0
    result: Inspection | None = None

    def options(self, kwargs: dict[str, Any]) -> None:
        """Let a Trainer run on one device, and write to the folder alone."""
        kwargs |= {"devices": 1, "num_nodes": 1, "fast_dev_run": False, "profiler": None}
        kwargs["default_root_dir"] = self.folder
        if not torch.cuda.is_available():
            # A script for GPUs can be inspected too, before it reaches one.
            kwargs |= {"accelerator": "cpu", "strategy": "auto"}

    def made(self, trainer: Any) -> None:
        """Add the inspector; no validation, and none of our own callback: few steps tell little."""
        self.trainers += 1
        trainer.limit_val_batches = 0
        trainer.num_sanity_val_steps = 0
        inspector = Inspector(steps=self.steps, done=self._take)
        others = [one for one in trainer.callbacks if not is_kind(one, "GpuProfCallback")]
        trainer.callbacks = [inspector, *others]

    def _take(self, result: Inspection) -> None:
        self.result = result


def main(arguments: Sequence[str]) -> int:
    """Run the script; an exception of its own ends it as it would without us."""
    path, steps, *program = arguments
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        inspecting = Inspecting(int(steps), folder)
        change_trainers(inspecting.options, inspecting.made)
        if not torch.cuda.is_available():
            # Without a GPU it raises: the script is inspected as if there were one.
            torch.cuda.synchronize = lambda device=None: None
        try:
            with suppress(InspectionDone):
                run_program(program)
        finally:
            result = inspecting.result or Inspection(trainers=inspecting.trainers)
            Path(path).write_bytes(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
