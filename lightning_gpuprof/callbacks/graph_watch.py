"""Notices two costly autograd settings: graphs kept after backward, and anomaly mode."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import silence_unused
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.run_output import RunOutput
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.graph import graph_is_kept
from lightning_gpuprof.records.schema import Note

ANOMALY_NOTE = "anomaly_mode"
RETAINED_NOTE = "retained_graph"


class GraphWatch(Callback):
    """Looks at one backward pass in many, and notes what makes every one of them slower.

    `torch.autograd` in anomaly mode runs a check after each backward function. A graph kept by
    `retain_graph=True` holds its activations until the loss goes. Each is noted once in the
    run's records, with the first step seen. Forward and backward run as always.

    Args:
        every: Backward passes per look.

    Raises:
        ConfigError: `every` makes no sense.
    """

    def __init__(self, *, every: int = 50) -> None:
        if every < 1:
            raise ConfigError(f"GraphWatch(every={every}) would never look. Pass 1 or more.")
        self.every = every
        self._output: RunOutput | None = None
        self._passes = 0
        self._node: Any = None
        self._noted: set[str] = set()
        silence_unused(self)

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._output = RunOutput.of(trainer)
        self._passes, self._node = 0, None
        self._noted = set()

    @override
    @guarded
    def on_before_backward(
        self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor
    ) -> None:
        if self._passes % self.every == 0:
            self._node = loss.grad_fn
            if torch.is_anomaly_enabled():
                self._note(ANOMALY_NOTE, "torch.autograd's anomaly detection is on")
        self._passes += 1

    @override
    @guarded
    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        node, self._node = self._node, None
        if node is not None and graph_is_kept(node):
            self._note(RETAINED_NOTE, "backward kept its graph (retain_graph=True)")

    @override
    @guarded
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._release()
        if self._output is not None:
            status = "interrupted" if isinstance(exception, KeyboardInterrupt) else "exception"
            self._output.end(status, error=exception)

    @override
    @guarded
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._release()
        if self._output is not None:
            self._output.end("finished")

    def _note(self, name: str, message: str) -> None:
        if name not in self._noted and self._output is not None:
            self._noted.add(name)
            self._output.write(Note(step=self._output.step, name=name, value=True, message=message))

    def _release(self) -> None:
        self._node = None
