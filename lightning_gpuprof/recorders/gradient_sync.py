"""A rank's wait for the gradients of others, apart from its own backward pass."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.autograd import at_end_of_backward
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.phases import EXCHANGE
from lightning_gpuprof.runtime.context import TimedPart
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet


class GradientSync(Recorder):
    """Times the end of each backward pass, in which ranks exchange gradients.

    DDP and FSDP finish their communication in a callback of the autograd engine, which runs once
    this rank's gradients are there. A callback that is queued before theirs opens the part
    `backward/gradient exchange`, on the host and, where there are marks, on the device. The end of
    the backward pass closes it.

    Costs: some 10 us per step, with several ranks alone.
    Touches: a hook on the loss and a callback on autograd's engine, with several ranks; nothing
        else shows when a rank's own gradients are ready.
    When: each step of a run with several ranks.
    """

    def __init__(self) -> None:
        self._hooks = HookSet(
            {"on_before_backward": self._before, "on_after_backward": self._after}
        )
        self._part: TimedPart | None = None
        self._armed = self._open = False

    @override
    def train_starts(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        timing = self._timing
        if trainer.world_size < 2 or timing is None or not timing.running:
            return
        self._part = timing.part(EXCHANGE)
        self._hooks.add(hooks)

    @guarded
    def _before(self, trainer: Any, module: object, loss: Any) -> None:
        part = self._part
        if part is not None and part.timed and getattr(loss, "requires_grad", False):
            self._armed = True
            loss.register_hook(self._begun)

    @guarded
    def _begun(self, gradient: torch.Tensor) -> None:
        if self._armed:
            self._armed = False
            at_end_of_backward(self._own_gradients_are_there)

    @guarded
    def _own_gradients_are_there(self) -> None:
        if self._part is not None and not self._open:
            self._open = True
            self._part.__enter__()

    @guarded
    def _after(self, trainer: Any, module: object) -> None:
        self._armed = False
        self._close()

    def _close(self) -> None:
        if self._open and self._part is not None:
            self._open = False
            self._part.__exit__(None, None, None)

    @override
    def release(self) -> None:
        self._hooks.drop()
        self._armed = False
        self._close()
        self._part = None
