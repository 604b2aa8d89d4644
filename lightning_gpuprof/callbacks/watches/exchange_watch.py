"""Tells a rank's own backward pass from waiting for the gradients of others."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.callbacks.region import Part
from lightning_gpuprof.records.phases import EXCHANGE


class ExchangeWatch(Watch):
    """Times the end of each backward pass in which ranks exchange gradients and wait for others.

    DDP and FSDP finish their communication in a callback of the autograd engine, which runs once
    all gradients of this rank are there. One that is queued before theirs, by a hook on the loss,
    runs before theirs: it opens the part `backward/gradient exchange`, on the host and, where there
    are marks, on the device. The end of the backward pass closes it. With one rank there is nothing
    to time and no hook; nothing is communicated for this.
    """

    def __init__(self) -> None:
        super().__init__()
        self._hooks = Hooks({"on_before_backward": self._before, "on_after_backward": self._after})
        self._part: Part | None = None
        self._armed = self._open = False

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        output = self._output
        if trainer.world_size < 2 or output is None or output.components is None:
            return
        self._part = output.components(EXCHANGE)
        self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _before(self, trainer: Trainer, pl_module: LightningModule, loss: Any) -> None:
        part = self._part
        if part is not None and part.timed and getattr(loss, "requires_grad", False):
            self._armed = True
            loss.register_hook(self._begun)

    @guarded
    def _begun(self, gradient: torch.Tensor) -> None:
        if self._armed:
            self._armed = False
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._own_gradients_are_there)

    @guarded
    def _own_gradients_are_there(self) -> None:
        if self._part is not None and not self._open:
            self._open = True
            self._part.__enter__()

    @guarded
    def _after(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._armed = False
        self._close()

    def _close(self) -> None:
        if self._open and self._part is not None:
            self._open = False
            self._part.__exit__(None, None, None)

    @override
    def _release(self) -> None:
        self._close()
        self._hooks.drop()
        self._part, self._armed = None, False
