"""The child process of `plan`: it runs the user's program up to its first batch and plans.

`python -m lightning_gpuprof.trials.plan_child REQUEST script.py args...`. The program runs on the
CPU and writes to a temporary folder only, as in the children of `try`.
"""

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import (
    Callback,
    LightningModule,
    Trainer,
    is_kind,
    moved_logger,
)
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.launch import change_trainers, run_program
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.trials.blocks import ProgramEnded
from lightning_gpuprof.trials.child import REMOVED_CALLBACKS
from lightning_gpuprof.trials.diverted import DivertedWrites
from lightning_gpuprof.trials.loader_batches import batches_like
from lightning_gpuprof.trials.model import PRECISIONS
from lightning_gpuprof.trials.plan import plan
from lightning_gpuprof.trials.plan_program import RESULT_FILE, PlanRequest, PlanResult

_PRECISION_NAMES = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true"}
"""Lightning's short names of precisions."""
_ONE_DEVICE = {
    "strategy": ("auto", "SingleDeviceStrategy"),
    "devices": ("auto", 1),
    "num_nodes": (1,),
}
"""Arguments of a Trainer, and their values with which a device holds what a plan counts."""


class PlanningTrainers:
    """Changes every Trainer that the program makes so that it plans at its first batch."""

    def __init__(self, request: PlanRequest) -> None:
        self._request = request
        self.result = PlanResult()

    def options(self, kwargs: dict[str, Any]) -> None:
        """Change the arguments of a Trainer: one CPU, and files in a temporary folder only."""
        self._precision = kwargs.pop("precision", None)
        self._several_devices = _several_devices(kwargs)
        kwargs |= {"accelerator": "cpu", "strategy": "auto", "devices": 1, "num_nodes": 1}
        kwargs |= {"fast_dev_run": False, "profiler": None, "num_sanity_val_steps": 0}
        kwargs |= {"enable_progress_bar": False, "enable_model_summary": False}
        kwargs |= {"sync_batchnorm": False, "default_root_dir": self._request.folder}

    def made(self, trainer: Any) -> None:
        """Let a new Trainer plan at its first batch."""
        self.result.trainers += 1
        trainer.limit_val_batches = 0
        trainer.loggers = [moved_logger(logger, self._request.folder) for logger in trainer.loggers]
        precision = str(self._precision or trainer.precision)
        planning = _PlanAtFirstBatch(
            self._request,
            self.result,
            precision=_PRECISION_NAMES.get(precision, precision),
            several_devices=self._several_devices,
        )
        others = [
            callback
            for callback in trainer.callbacks
            if not any(is_kind(callback, kind) for kind in REMOVED_CALLBACKS)
        ]
        trainer.callbacks = [planning, *others]


class _PlanAtFirstBatch(Callback):
    """Plans when the first batch is about to be trained, and then ends the program."""

    def __init__(
        self, request: PlanRequest, result: PlanResult, *, precision: str, several_devices: str
    ) -> None:
        self._request = request
        self._result = result
        self._precision = precision
        self._several_devices = several_devices

    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._result.reached_training = True
        try:
            self._plan(trainer, pl_module, batch)
        except ConfigError as error:
            self._result.error = str(error)
        raise ProgramEnded

    def _plan(self, trainer: Any, model: Any, batch: Any) -> None:
        request = self._request
        precision = request.precision or self._precision
        if precision not in PRECISIONS:
            raise ConfigError(
                f"Memory under Trainer(precision={precision!r}) cannot be predicted. Pass "
                "--precision bf16-mixed or 32-true to plan for that instead."
            )
        batches = batches_like(trainer.train_dataloader, batch, trainer.strategy.batch_to_device)
        own = batches.own_size
        planned = plan(
            lambda: (model, batches.batch),
            vram_bytes=request.vram_bytes,
            batch_sizes=request.batch_sizes or sorted({max(1, own // 2), own, 2 * own}),
            precision=precision,
            samples=batches.samples,
        )
        notes = [batches.note]
        if self._several_devices:
            notes.append(
                "The plan is for a device that holds the whole model. What "
                f"Trainer({self._several_devices}) shards or adds is not counted."
            )
        assumptions = (*notes, *planned.assumptions)
        self._result.plan = replace(planned, own_batch_size=own, assumptions=assumptions)


def _several_devices(kwargs: dict[str, Any]) -> str:
    """Return the arguments by which a Trainer uses several devices, as in `devices=4`."""
    shown = []
    for name, defaults in _ONE_DEVICE.items():
        value = kwargs.get(name, defaults[0])
        if not isinstance(value, str | int | list):
            value = type(value).__name__
        if value not in defaults and value not in ("1", [0]):
            shown.append(f"{name}={value!r}")
    return ", ".join(shown)


def run(request: PlanRequest, program: Sequence[str]) -> None:
    """Run a program up to its first batch and write the result into the request's folder.

    An exception of the program is not caught.
    """
    write_result = Path(request.folder, RESULT_FILE).write_bytes
    trainers = PlanningTrainers(request)
    change_trainers(trainers.options, trainers.made)
    try:
        with suppress(ProgramEnded):
            run_program(program)
    finally:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, SystemExit):
            first_line = next(iter(str(error).splitlines()), "").rstrip(".")
            trainers.result.raised = f"{type(error).__name__}: {first_line}"
        write_result(msgspec.json.encode(trainers.result))


def main(arguments: Sequence[str]) -> None:
    """Plan for a program without its side effects, and end this process."""
    request = msgspec.json.decode(arguments[0], type=PlanRequest)
    # Lightning says which devices it uses, but a plan needs none.
    logging.disable(logging.INFO)
    warnings.filterwarnings("ignore", "GPU available but not used")
    DivertedWrites(request.folder).install(Wrappers())
    run(request, arguments[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and workers of the program could wait for more training


if __name__ == "__main__":
    main(sys.argv[1:])
