"""The child process of `lightning-gpuprof inspect`: the script runs here for a few steps.

`python -m lightning_gpuprof.inspect.child RESULT STEPS script.py args...`
"""

import importlib
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import torch

from lightning_gpuprof.adapters.lightning import is_kind
from lightning_gpuprof.inspect.inspector import InspectionDone, Inspector
from lightning_gpuprof.records.inspection import Inspection


@dataclass
class Inspecting:
    """Puts an inspector into every Trainer that a script makes, and keeps its result."""

    steps: int
    folder: str
    trainers: int = 0
    result: Inspection | None = None

    def patch(self, trainer_class: Any) -> None:
        """Let Trainers run on one device, without validation, and end early."""
        original: Callable[..., None] = trainer_class.__init__

        @wraps(original)  # LightningCLI reads the Trainer's arguments from its signature
        def init(trainer: Any, *args: Any, **kwargs: Any) -> None:
            kwargs |= {"devices": 1, "num_nodes": 1, "fast_dev_run": False, "profiler": None}
            kwargs["default_root_dir"] = self.folder
            if not torch.cuda.is_available():
                # A script for GPUs can be inspected too, before it reaches one.
                kwargs |= {"accelerator": "cpu", "strategy": "auto"}
            original(trainer, *args, **kwargs)
            self.trainers += 1
            trainer.limit_val_batches = 0
            trainer.num_sanity_val_steps = 0
            inspector = Inspector(steps=self.steps, done=self._take)
            # A profile of these few steps would be thrown away.
            others = [one for one in trainer.callbacks if not is_kind(one, "GpuProfCallback")]
            trainer.callbacks = [inspector, *others]

        trainer_class.__init__ = init

    def _take(self, result: Inspection) -> None:
        self.result = result


def main(arguments: Sequence[str]) -> int:
    """Run the script; an exception of its own ends it as it would without us."""
    path, steps, script, *rest = arguments
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        inspecting = Inspecting(int(steps), folder)
        try:
            _run(inspecting, script, rest)
        finally:
            result = inspecting.result or Inspection(trainers=inspecting.trainers)
            Path(path).write_bytes(msgspec.json.encode(result))
    return 0


def _run(inspecting: Inspecting, script: str, arguments: Sequence[str]) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if find_spec(name.partition(".")[0]) is not None:
            inspecting.patch(importlib.import_module(name).Trainer)
    if not torch.cuda.is_available():
        # Without a GPU it raises: the script is inspected as if there were one.
        torch.cuda.synchronize = lambda device=None: None
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    with suppress(InspectionDone):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
