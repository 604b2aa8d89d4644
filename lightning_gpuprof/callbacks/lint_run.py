"""The child process of `lightning-gpuprof lint`: a script runs here until its syncs are known.

`python -m lightning_gpuprof.callbacks.lint_run RESULT STEPS script.py args...`
"""

import importlib
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import torch
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks.sync_detector import SyncDetector
from lightning_gpuprof.records.schema import SyncSite

_WARM_UP = 1
"""The first step is not watched: what is lazily set up in it is none of the loop's."""


class LintDone(BaseException):
    """Ends the script once its steps have been watched; no `except Exception` stops it."""


class LintDetector(SyncDetector):
    """Watches a few steps and ends the script then, or at its first epoch's end."""

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End here: without validation an epoch's end may miss what it monitors."""
        self._close()


class Lint:
    """Puts a detector into every Trainer that a script makes, and keeps what it finds.

    Args:
        steps: Steps to watch.
        folder: Where Trainers write what they would write by default.
    """

    def __init__(self, steps: int, folder: str) -> None:
        self._steps = steps
        self._folder = folder
        self.trainers = 0
        self.steps_watched = 0
        self.sites: list[SyncSite] = []

    def patch(self, trainer_class: Any) -> None:
        """Let Trainers run on one device, without validation, and end early."""
        original: Callable[..., None] = trainer_class.__init__

        @wraps(original)  # LightningCLI reads the Trainer's arguments from its signature
        def init(trainer: Any, *args: Any, **kwargs: Any) -> None:
            kwargs |= {"devices": 1, "num_nodes": 1, "fast_dev_run": False}
            kwargs["default_root_dir"] = self._folder
            if not torch.cuda.is_available():
                # A script for GPUs is looked at too, before it reaches one.
                kwargs |= {"accelerator": "cpu", "strategy": "auto"}
            original(trainer, *args, **kwargs)
            self.trainers += 1
            trainer.limit_val_batches = 0
            trainer.num_sanity_val_steps = 0
            detector = LintDetector(start=_WARM_UP, steps=self._steps, on_sites=self._take)
            # A profile of these few steps would be written, reported and thrown away.
            others = [one for one in trainer.callbacks if not isinstance(one, GpuProfCallback)]
            trainer.callbacks = [detector, *others]

        trainer_class.__init__ = init

    def _take(self, sites: Sequence[SyncSite], steps: int) -> None:
        self.sites, self.steps_watched = list(sites), steps
        raise LintDone

    def result(self) -> dict[str, Any]:
        """Return what the parent process reads."""
        return {
            "steps_watched": self.steps_watched,
            "sites": self.sites,
            "trainers": self.trainers,
        }


def main(arguments: Sequence[str]) -> int:
    """Run the script; an exception of its own ends it as it would without us."""
    result, steps, script, *rest = arguments
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lint = Lint(int(steps), folder)
        try:
            _run(lint, script, rest)
        finally:
            Path(result).write_bytes(msgspec.json.encode(lint.result()))
    return 0


def _run(lint: Lint, script: str, arguments: Sequence[str]) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if find_spec(name.partition(".")[0]) is not None:
            lint.patch(importlib.import_module(name).Trainer)
    if not torch.cuda.is_available():
        # Where there is no GPU it raises: the script is looked at as if there were one.
        torch.cuda.synchronize = lambda device=None: None
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    with suppress(LintDone):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
