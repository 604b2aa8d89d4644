"""Times the exchange of gradients between ranks, apart from the backward pass itself."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.autograd import at_end_of_backward
from lightning_gpuprof.adapters.callback_hooks import AFTER_BACKWARD, BEFORE_BACKWARD
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.phases import EXCHANGE
from lightning_gpuprof.runtime.context import TimedPart
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet


class GradientSync(Recorder):
    """Times the end of every backward pass, in which ranks exchange gradients.

    DDP and FSDP finish their communication in a callback of the autograd engine, which runs when
    this rank's own gradients are ready. This recorder queues a callback before theirs. In it the
    part `backward/gradient exchange` begins, on the host and, if there are marks, on the device.
    The part ends with the backward pass.

    Costs: about 10 us per step of a run with several ranks.
    Touches: a hook on the loss and a callback on autograd's engine, if there are several ranks.
        Nothing else shows when a rank's own gradients are ready.
    When: every step of a run with several ranks.
    """

    def __init__(self) -> None:
        self._hooks = HookSet(
            {
                BEFORE_BACKWARD: self._on_before_backward,
                AFTER_BACKWARD: self._on_after_backward,
            }
        )
        self._part: TimedPart | None = None
        self._backward_expected = self._part_is_open = False

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        timing = self._timing
        if trainer.world_size < 2 or timing is None or not timing.running:
            return
        self._part = timing.part(EXCHANGE)
        self._hooks.add(hooks)

    @guarded
    def _on_before_backward(self, trainer: Any, module: object, loss: Any) -> None:
        part = self._part
        if part is not None and part.timed and getattr(loss, "requires_grad", False):
            self._backward_expected = True
            loss.register_hook(self._on_backward_begin)

    @guarded
    def _on_backward_begin(self, gradient: torch.Tensor) -> None:
        if self._backward_expected:
            self._backward_expected = False
            at_end_of_backward(self._on_own_gradients_ready)

    @guarded
    def _on_own_gradients_ready(self) -> None:
        if self._part is not None and not self._part_is_open:
            self._part_is_open = True
            self._part.__enter__()

    @guarded
    def _on_after_backward(self, trainer: Any, module: object) -> None:
        self._backward_expected = False
        self._close_part()

    def _close_part(self) -> None:
        if self._part_is_open and self._part is not None:
            self._part_is_open = False
            self._part.__exit__(None, None, None)

    @override
    def release(self) -> None:
        self._hooks.drop()
        self._backward_expected = False
        self._close_part()
        self._part = None
